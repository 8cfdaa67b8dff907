"""An asyncio client of any cluster: for the requests that librdkafka cannot send."""
