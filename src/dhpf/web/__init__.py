"""The page in the browser; calls Matcher only."""
