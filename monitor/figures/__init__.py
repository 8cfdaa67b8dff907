"""Pure figures of a cluster: snapshots and times in, values with the sentence that says them out."""
