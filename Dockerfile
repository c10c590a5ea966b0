# LabGPU's image: the same parts that `make run` starts, one to a container (docker-compose.yml says which).

FROM python:3.13-slim AS packages
WORKDIR /app
ENV UV_PYTHON_DOWNLOADS=never
COPY requirements.lock ./
RUN python -m venv /tools && /tools/bin/pip install --quiet uv==0.13.9 \
 && python -m venv --without-pip .venv \
 && /tools/bin/uv pip sync --quiet --python .venv/bin/python --require-hashes --compile-bytecode requirements.lock

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin labgpu \
 && install -d -o labgpu -g labgpu -m 0700 /data
WORKDIR /app
COPY --from=packages /app/.venv .venv
COPY manage.py ./
COPY labgpu labgpu
COPY reservations reservations
COPY monitoring monitoring
COPY templates templates
COPY static static
COPY locale locale
# The translations are compiled into the image: the user that runs it cannot write here.
RUN SECRET_KEY=unused .venv/bin/python manage.py compile_translations && .venv/bin/python -m compileall -q labgpu reservations monitoring
ENV PATH=/app/.venv/bin:$PATH DATA_DIR=/data HOST=0.0.0.0 PYTHONUNBUFFERED=1
USER labgpu
VOLUME /data
EXPOSE 8000
# Without a command: everything in one container, on SQLite and the embedded broker, like `make run`.
CMD ["python", "-m", "labgpu.run"]
