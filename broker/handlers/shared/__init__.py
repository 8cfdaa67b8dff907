"""What the handlers of several APIs share: their contexts and replies, quotas, checks, and encodings."""
