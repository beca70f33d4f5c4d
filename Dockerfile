# hookonce alone: one static file, no shell, no libc, no package manager, and no user but a number.
#
#   docker build -t hookonce .
#   docker run --rm hookonce demo
#
# A program that scripts/static has built before is put in by `--target prebuilt`, and nothing is compiled: it lies in
# target/image/ARCH/hookonce, ARCH being amd64 or arm64, beside an empty folder target/image/data.

# The Rust that Cargo.toml asks for.
ARG RUST=1.95

FROM scratch AS settings
# For `docker inspect`, registries and scanners. The release fills them in.
ARG VERSION=0.1.0
ARG REVISION=""
ARG SOURCE=""
LABEL org.opencontainers.image.title="hookonce" \
      org.opencontainers.image.description="A reverse proxy that dedupes inbound webhooks: each event is forwarded once, and never lost" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
USER 65532:65532
# Probes and Prometheus come from outside of the container. Without an `admin_token` they are all that is answered there.
ENV HOOKONCE__ADMIN=0.0.0.0:9090
# Only `demo` puts something there: there is no /tmp.
ENV TMPDIR=/data
EXPOSE 8080 9090
# Longer than `health` waits by itself.
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 CMD ["/usr/bin/hookonce", "health"]
ENTRYPOINT ["/usr/bin/hookonce"]
CMD ["run", "--config", "/etc/hookonce/hookonce.toml"]

FROM settings AS prebuilt
ARG TARGETARCH
COPY target/image/${TARGETARCH}/hookonce /usr/bin/hookonce
COPY --chown=65532:65532 target/image/data /data
WORKDIR /data
VOLUME /data

FROM rust:${RUST}-slim-bookworm AS build
WORKDIR /src
COPY . .
# What was downloaded and compiled stays between builds, outside of the layers.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    scripts/static /image && mkdir /image/data

FROM settings
COPY --from=build /image/hookonce /usr/bin/hookonce
# The embedded store, which is ./hookonce-data unless the configuration says otherwise. A new volume takes its owner from here.
COPY --from=build --chown=65532:65532 /image/data /data
WORKDIR /data
VOLUME /data
