"""The page of a run that goes on (`highwater watch`): how it stands, and one picture of it."""
