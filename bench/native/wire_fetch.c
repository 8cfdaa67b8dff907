/* Reads a partition from its beginning and looks at no record: how fast a broker hands out what it holds.
 *
 * One connection, one fetch (version 4) in flight, each for up to MAX_BYTES from where the last one ended.
 *
 *   wire_fetch PORT TOPIC PARTITION RECORDS MAX_BYTES
 *
 * Ends when RECORDS records have come. Prints one JSON object: records, bytes of record batches, seconds.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Where things stand in a record batch. */
enum { BATCH_LENGTH_AT = 8, LAST_OFFSET_DELTA_AT = 23, BATCH_HEAD_BYTES = 61, BEFORE_LENGTH_COUNTS = 12 };
enum { FETCH = 1, VERSION = 4, MAX_WAIT_MS = 10000 };

static char request[512];
static size_t request_bytes, offset_at;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void put_i16(int16_t value) {
    uint16_t big = htobe16((uint16_t)value);
    memcpy(request + request_bytes, &big, 2);
    request_bytes += 2;
}

static void put_i32(int32_t value) {
    uint32_t big = htobe32((uint32_t)value);
    memcpy(request + request_bytes, &big, 4);
    request_bytes += 4;
}

static void put_string(const char *text) {
    put_i16((int16_t)strlen(text));
    memcpy(request + request_bytes, text, strlen(text));
    request_bytes += strlen(text);
}

static int32_t get_i32(const char *at) {
    uint32_t big;
    memcpy(&big, at, 4);
    return (int32_t)be32toh(big);
}

static int64_t get_i64(const char *at) {
    uint64_t big;
    memcpy(&big, at, 8);
    return (int64_t)be64toh(big);
}

static void write_request(const char *topic, int32_t partition, int32_t max_bytes) {
    put_i32(0); /* size, put in below */
    put_i16(FETCH);
    put_i16(VERSION);
    put_i32(0); /* correlation id */
    put_string("highwater-bench");
    put_i32(-1); /* a consumer */
    put_i32(MAX_WAIT_MS);
    put_i32(1); /* min bytes */
    put_i32(max_bytes);
    request[request_bytes++] = 0; /* read uncommitted */
    put_i32(1);
    put_string(topic);
    put_i32(1);
    put_i32(partition);
    offset_at = request_bytes;
    put_i32(0);
    put_i32(0);
    put_i32(max_bytes);
    size_t end = request_bytes;
    request_bytes = 0;
    put_i32((int32_t)end - 4);
    request_bytes = end;
}

static void receive(int connection, char *into, size_t bytes) {
    while (bytes > 0) {
        ssize_t got = recv(connection, into, bytes, 0);
        if (got <= 0)
            fail("the broker closed the connection");
        into += got;
        bytes -= (size_t)got;
    }
}

int main(int argc, char **argv) {
    if (argc != 6 || strlen(argv[2]) > 255) {
        fprintf(stderr, "usage: wire_fetch PORT TOPIC PARTITION RECORDS MAX_BYTES\n");
        return 2;
    }
    int32_t max_bytes = atoi(argv[5]);
    int64_t records = atoll(argv[4]), next_offset = 0, bytes = 0;
    write_request(argv[2], atoi(argv[3]), max_bytes);
    /* In the answer: correlation id, throttle time, one topic, one partition, its error, two offsets, no transactions. */
    size_t error_at = 4 + 4 + 4 + 2 + strlen(argv[2]) + 4 + 4, batches_at = error_at + 2 + 8 + 8 + 4 + 4;
    size_t room = (size_t)max_bytes + (8 << 20);
    char *answer = malloc(room);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argv[1])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect");
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);

    struct timespec started, ended;
    clock_gettime(CLOCK_MONOTONIC, &started);
    while (next_offset < records) {
        uint64_t big = htobe64((uint64_t)next_offset);
        memcpy(request + offset_at, &big, 8);
        if (send(connection, request, request_bytes, MSG_NOSIGNAL) != (ssize_t)request_bytes)
            fail("send");
        char head[4];
        receive(connection, head, 4);
        size_t size = (size_t)get_i32(head);
        if (size > room || size < batches_at) {
            fprintf(stderr, "an answer of %zu bytes\n", size);
            return 1;
        }
        receive(connection, answer, size);
        int error = (int16_t)((unsigned char)answer[error_at] << 8 | (unsigned char)answer[error_at + 1]);
        int32_t held = get_i32(answer + batches_at - 4);
        if (error != 0 || held <= 0) {
            fprintf(stderr, "error code %d, %d bytes at offset %lld\n", error, held, (long long)next_offset);
            return 1;
        }
        const char *at = answer + batches_at, *end = at + held;
        while (end - at >= BATCH_HEAD_BYTES) {
            int32_t length = get_i32(at + BATCH_LENGTH_AT) + BEFORE_LENGTH_COUNTS;
            if (end - at < length)
                break; /* Kafka cuts the last one off */
            next_offset = get_i64(at) + get_i32(at + LAST_OFFSET_DELTA_AT) + 1;
            bytes += length;
            at += length;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    double seconds = (double)(ended.tv_sec - started.tv_sec) + (double)(ended.tv_nsec - started.tv_nsec) / 1e9;
    printf("{\"records\": %lld, \"bytes\": %lld, \"seconds\": %.6f}\n", (long long)next_offset, (long long)bytes,
           seconds);
    return 0;
}
