# Three images:
#   api         the HTTP service, the migrations and the command line; no TensorFlow
#   worker      a host without a GPU
#   worker-gpu  a host with NVIDIA GPUs
#
# /opt/hora is the environment with the dependencies, /opt/app the project itself. So a change of the code does not
# change the large layer.

FROM docker.io/library/python:3.11-slim-bookworm AS base
ENV PATH=/opt/hora/bin:/opt/app/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HORA_HOME=/var/lib/hora
RUN useradd --system --user-group --uid 10001 --home-dir /var/lib/hora --create-home --shell /bin/sh hora \
 && install -d -o hora -g hora -m 0700 /var/lib/hora /var/lib/hora-datasets
WORKDIR /var/lib/hora

# ---- build stages: they build what the images install, and are in no image

FROM base AS environment
WORKDIR /build
COPY requirements/uv.txt requirements/
RUN python -m venv /opt/uv \
 && /opt/uv/bin/pip install --no-cache-dir --require-hashes -r requirements/uv.txt \
 && ln -s /opt/uv/bin/uv /usr/local/bin/uv
# uv's cache is outside the layers and is kept between builds: Horovod is compiled once for each TensorFlow.
ENV UV_CACHE_DIR=/var/cache/uv UV_LINK_MODE=copy UV_NO_PROGRESS=1 VIRTUAL_ENV=/opt/hora
RUN uv venv --python /usr/local/bin/python /opt/hora \
 && echo /opt/app > "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/hora.pth"

# The dashboard comes before the Python code: only a change in the dashboard builds it again.
FROM environment AS dashboard
COPY requirements/build.txt requirements/
RUN --mount=type=cache,target=/var/cache/uv \
    uv venv --python /usr/local/bin/python /opt/build \
 && uv pip sync --python /opt/build --require-hashes requirements/build.txt
COPY hatch_build.py .
COPY dashboard dashboard
RUN --mount=type=cache,target=/root/.npm \
    /opt/build/bin/python hatch_build.py dashboard

# The documentation also comes before the Python code, with the pages and examples that it links to.
FROM dashboard AS app
COPY *.md LICENSE ./
COPY examples examples
COPY docs docs
RUN /opt/build/bin/python hatch_build.py docs
COPY pyproject.toml ./
COPY api api
COPY hora hora
COPY jobs jobs
COPY migrations migrations
COPY trainer trainer
COPY worker worker
RUN --mount=type=cache,target=/var/cache/uv \
    uv build --wheel --no-build-isolation --python /opt/build --out-dir dist \
 && uv pip install --no-deps --target /opt/app dist/*.whl \
 && python -m compileall -q /opt/app

FROM environment AS api-environment
COPY requirements/api.txt requirements/
RUN --mount=type=cache,target=/var/cache/uv \
    uv pip sync --require-hashes --compile-bytecode requirements/api.txt

# ---- api

FROM base AS api
# Pango lays out the pages of articles as PDF.
RUN apt-get update \
 && apt-get install -y --no-install-recommends fonts-dejavu-core libharfbuzz-subset0 libpangoft2-1.0-0 \
 && rm -rf /var/lib/apt/lists/*
# glibc keeps the memory of large answers in each of eight arenas a core. One arena is enough and is trimmed.
ENV MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=65536
COPY --from=api-environment /opt/hora /opt/hora
COPY --from=app /opt/app /opt/app
USER hora
EXPOSE 8400
CMD ["python", "-m", "api", "--host", "0.0.0.0", "--port", "8400", "--timeout-graceful-shutdown", "20"]

# ---- worker

FROM environment AS compiler
RUN apt-get update && apt-get install -y --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*

FROM compiler AS worker-environment
COPY requirements/build.txt requirements/worker.txt requirements/
COPY pyproject.toml .
RUN --mount=type=cache,target=/var/cache/uv \
    UV_LOCK_TIMEOUT=3600 MAKEFLAGS=-j$(nproc) uv pip sync --require-hashes --build-constraints requirements/build.txt --compile-bytecode requirements/worker.txt

FROM base AS worker-base
# The package makes host keys, which would be the same in every container. The stack's own keys are in a volume. Without
# the star sshd treats the user as locked.
#
# hora-code runs the scripts of jobs. The worker may change to it only if it gets the capabilities for that: see the
# worker in docker-compose.yml.
RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap dataset-fashion-mnist openssh-client openssh-server \
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
 && useradd --system --user-group --uid 10002 --no-create-home --shell /usr/sbin/nologin hora-code \
 && usermod --password '*' hora \
 && install -d -o hora -g hora -m 0700 /var/lib/hora-keys
CMD ["python", "-m", "worker"]

FROM worker-base AS worker
COPY --from=worker-environment /opt/hora /opt/hora
COPY --from=app /opt/app /opt/app
USER hora

# ---- worker-gpu: Horovod is compiled with NVIDIA's compiler wheels, which stay in the build stage

FROM compiler AS worker-gpu-environment
RUN ln -s /opt/uv .uv
COPY requirements/build.txt requirements/gpu.uv.toml requirements/nccl.txt requirements/nvcc.txt requirements/worker-gpu.txt requirements/
COPY set_up.py set_up_gpu.py ./
RUN --mount=type=cache,target=/var/cache/uv \
    UV_LOCK_TIMEOUT=3600 /usr/local/bin/python set_up.py gpu /opt/hora requirements/worker-gpu.txt

FROM worker-base AS worker-gpu
# With them NCCL finds InfiniBand.
RUN apt-get update \
 && apt-get install -y --no-install-recommends libibverbs1 ibverbs-providers \
 && rm -rf /var/lib/apt/lists/*
COPY --from=worker-gpu-environment /opt/hora /opt/hora
COPY --from=app /opt/app /opt/app
USER hora
