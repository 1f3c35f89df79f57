"""Files of offices: Word, PowerPoint, Excel, OpenDocument."""
