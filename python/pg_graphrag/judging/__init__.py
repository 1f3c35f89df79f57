"""Questions made, answers judged, and charts drawn by the command: nothing of it runs in the server."""
