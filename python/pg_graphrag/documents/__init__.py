"""Where documents come from: tables of the application that feed a corpus."""
