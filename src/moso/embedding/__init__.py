"""Features of samples in a network that is not trained: computed once, resumable, in memory-mapped files."""

from moso.embedding.embedded_folder import EmbeddedFolder, Embedding, embed_samples, write_features_folder
from moso.embedding.embedder import Embedder, find_embedder
from moso.embedding.rows import write_rows

__all__ = [
    "EmbeddedFolder",
    "Embedder",
    "Embedding",
    "embed_samples",
    "find_embedder",
    "write_features_folder",
    "write_rows",
]
