"""The kinds of jobs and the functions that do them. Add a new kind here and to the check of graphrag.jobs
(sql/05_jobs/).
"""

# Jobs of documents, or of parts of long ones: document_jobs.py, part_jobs.py.
DOCUMENT_KINDS = ("index", "embed", "graph", "remove")
# Jobs of a corpus: {kind: function (database, corpus, job) that does it and returns whether the job is done}. A
# function is imported when there is such a job: most sessions have jobs of documents alone.
SERVICES = {
    "attach": "index.documents.attach:backfill",
    "sweep": "operate.jobs.maintenance:sweep",
    "batch": "index.indexing.batch:advance_batches",
    "communities": "index.community.refresh:refresh",
    "pack": "operate.jobs.maintenance:pack",
    "optimize": "operate.jobs.maintenance:optimize",
    "summarize": "index.extraction.summaries:summarize",
    "describe": "index.extraction.descriptions:describe",
    "reembed": "index.indexing.reembed:reembed",
    "reports": "index.community.reports:write_reports",
}
