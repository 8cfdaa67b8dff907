"""What is made of results: advice, plans of clusters, captures, histories, the lake, live figures."""
