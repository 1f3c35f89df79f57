"""Text of scans and pictures (OCR)."""
