"""Pure passes from the path of turns to the wire view."""
