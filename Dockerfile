# The operator's image: Python, the table library and the operator. No Spark, no JRE: jobs have an image of their own.
#   docker build -t tablewright .
# BASE is any Debian-like image with Python 3.11 or later and its venv module.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS builder
# How packages are reached where that is special (a mirror, certificates of one's own). Nothing of it is in the image.
ARG PIP_CERT PIP_CONFIG_FILE PIP_INDEX_URL SSL_CERT_FILE UV_CONFIG_FILE UV_DEFAULT_INDEX
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PROJECT_ENVIRONMENT=/opt/tablewright UV_PYTHON=python3 \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /source
COPY tools tools
RUN ln -s "$(PYTHON=python3 CACHE=/opt tools/ensure-uv)" /usr/local/bin/uv
# Database drivers for SQL catalogs, for example DRIVERS="postgresql mysql". Both images need the same ones.
ARG DRIVERS=""
COPY pyproject.toml uv.lock ./
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --locked --no-default-groups --no-install-project --extra operator \
      $(for driver in $DRIVERS; do echo "--extra $driver"; done) && \
    tools/trim-packages /opt/tablewright/lib/python3*/site-packages \
      kubernetes/aio pyarrow/include pyarrow/tests 'pyarrow/*_flight*'
COPY LICENSE README.md ./
COPY crds crds
COPY operator operator
COPY tableformat tableformat
# A tree of its own, to be laid over the environment's as a small layer: most upgrades then pull nothing else.
RUN --mount=type=cache,target=/root/.cache/uv \
    uv build --wheel --out-dir /opt/wheels && \
    uv pip install --no-deps --python /opt/tablewright --prefix /opt/project /opt/wheels/*.whl

FROM ${BASE}
RUN echo 'tablewright:x:10001:10001:Tablewright:/tmp:/usr/sbin/nologin' >> /etc/passwd && \
    echo 'tablewright:x:10001:' >> /etc/group
COPY --from=builder /opt/tablewright /opt/tablewright
COPY --from=builder /opt/project /opt/tablewright
# The root file system may be read-only; a volume at /tmp is all that is written to.
ENV PATH=/opt/tablewright/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /tmp
USER 10001:10001
ENTRYPOINT ["tablewright"]
