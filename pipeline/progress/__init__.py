"""What a sink has stored of a stream: the batch in hand, the rule against replays, the way back."""
