/* Sends one produce request, encoded beforehand, again and again over many connections, and times every answer.
 *
 * It costs the host little, so that the broker has the cores. One thread, ppoll(2). Closed loop: each connection keeps
 * IN_FLIGHT requests unanswered. Open loop (RATE above 0): request i is due at start + i / RATE on connection i modulo
 * CONNECTIONS, whatever the broker does; a stall is paid for by every request that it delays, for latency runs from the
 * due time. Connection c produces to partition c modulo PARTITIONS, at port c modulo their number: PORTS are separated by
 * commas, and partition p is led at port p modulo their number.
 *
 *   wire_load PORTS TEMPLATE CORRELATION_AT PARTITION_AT BATCH_AT ERROR_AT
 *             PARTITIONS CONNECTIONS IN_FLIGHT REQUESTS RATE LATENCIES
 *
 * TEMPLATE is the file with the request's frame, size included; CORRELATION_AT, PARTITION_AT and BATCH_AT are where in it
 * the correlation id, the partition and the record batch stand, which ends the frame; ERROR_AT is where in the answer's
 * frame the error code stands. The batch gets the time of the clock, once a second, as records of a producer have it: a
 * broker may look closer at others. Every answer's
 * correlation id and error code are checked. The latency of every answer goes into the file LATENCIES, in nanoseconds, as
 * int64_t of this host. Prints one JSON object: requests, seconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RECEIVE_BYTES (1 << 16)
#define GATHERED_BYTES (1 << 17)
#define STALLED_MS 60000
#define STAMPED_EVERY_NS 1000000000LL
#define CRC_AT 17 /* in a batch, and what it covers; the times of the first and of the last record */
#define CRC_COVERS_FROM 21
#define TIMES_AT 27

struct connection {
    char *sending; /* frames copied, not yet taken by the kernel */
    size_t to_send, sent;
    char received[RECEIVE_BYTES];
    size_t held;
    int64_t *due_ns; /* of the requests in flight: a ring */
    uint32_t asked, answered;
    int32_t partition;
};

static struct pollfd *watched;
static struct connection *connections;
static char *template;
static size_t template_bytes, sending_bytes;
static size_t correlation_at, partition_at, batch_at, error_at;
static uint32_t in_flight;
static int64_t *latency_ns, asked, answered, requests;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void put_i32(char *at, uint32_t value) {
    uint32_t big = htobe32(value);
    memcpy(at, &big, 4);
}

static uint32_t get_i32(const char *at) {
    uint32_t big;
    memcpy(&big, at, 4);
    return be32toh(big);
}

static uint32_t crc32c(const char *bytes, size_t count) {
    static uint32_t table[256];
    if (table[1] == 0)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t value = byte;
            for (int bit = 0; bit < 8; bit++)
                value = value >> 1 ^ (value & 1 ? 0x82f63b78 : 0);
            table[byte] = value;
        }
    uint32_t crc = ~0u;
    for (size_t i = 0; i < count; i++)
        crc = crc >> 8 ^ table[(crc ^ (unsigned char)bytes[i]) & 0xff];
    return ~crc;
}

/* Gives the batch the time of the clock, unless that was done within the last second. */
static void stamp(int64_t now) {
    static int64_t stamped;
    if (stamped != 0 && now - stamped < STAMPED_EVERY_NS)
        return;
    stamped = now;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t big = htobe64((uint64_t)wall.tv_sec * 1000 + (uint64_t)wall.tv_nsec / 1000000);
    char *batch = template + batch_at;
    memcpy(batch + TIMES_AT, &big, 8);
    memcpy(batch + TIMES_AT + 8, &big, 8);
    put_i32(batch + CRC_AT, crc32c(batch + CRC_COVERS_FROM, template_bytes - batch_at - CRC_COVERS_FROM));
}

static int has_room(const struct connection *c) {
    return c->asked - c->answered < in_flight && c->to_send + template_bytes <= sending_bytes;
}

static void ask(struct connection *c, int64_t due_ns) {
    char *frame = c->sending + c->to_send;
    memcpy(frame, template, template_bytes);
    put_i32(frame + correlation_at, c->asked);
    put_i32(frame + partition_at, (uint32_t)c->partition);
    c->to_send += template_bytes;
    c->due_ns[c->asked++ % in_flight] = due_ns;
    asked++;
}

static void flush(int i) {
    struct connection *c = &connections[i];
    while (c->sent < c->to_send) {
        ssize_t taken = send(watched[i].fd, c->sending + c->sent, c->to_send - c->sent, MSG_NOSIGNAL);
        if (taken < 0) {
            if (errno != EAGAIN)
                fail("send");
            break;
        }
        c->sent += (size_t)taken;
    }
    if (c->sent == c->to_send)
        c->sent = c->to_send = 0;
    watched[i].events = c->to_send ? POLLIN | POLLOUT : POLLIN;
}

static void take_answers(int i) {
    struct connection *c = &connections[i];
    ssize_t got = recv(watched[i].fd, c->received + c->held, RECEIVE_BYTES - c->held, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        fprintf(stderr, "the broker closed a connection with %u requests unanswered\n", c->asked - c->answered);
        exit(1);
    }
    c->held += (size_t)got;
    size_t at = 0;
    int64_t now = now_ns();
    while (c->held - at >= 4 && c->held - at >= 4 + get_i32(c->received + at)) {
        const char *frame = c->received + at;
        int error = (int16_t)((unsigned char)frame[error_at] << 8 | (unsigned char)frame[error_at + 1]);
        if (get_i32(frame + 4) != c->answered || error != 0) {
            fprintf(stderr, "answer %u to request %u, error code %d\n", get_i32(frame + 4), c->answered, error);
            exit(1);
        }
        latency_ns[answered++] = now - c->due_ns[c->answered++ % in_flight];
        at += 4 + get_i32(frame);
    }
    c->held -= at;
    memmove(c->received, c->received + at, c->held);
}

static void write_latencies(const char *path) {
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(latency_ns, sizeof *latency_ns, (size_t)answered, file) != (size_t)answered || fclose(file))
        fail(path);
}

static void connect_all(int count, const char *ports, int partitions) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *port = ports;
    for (int i = 0; i < count; i++) {
        address.sin_port = htons((uint16_t)atoi(port));
        const char *comma = strchr(port, ',');
        port = comma ? comma + 1 : ports;
        int one = 1, opened = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(opened, (struct sockaddr *)&address, sizeof address) != 0)
            fail("connect");
        setsockopt(opened, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        fcntl(opened, F_SETFL, O_NONBLOCK);
        watched[i] = (struct pollfd){.fd = opened, .events = POLLIN};
        connections[i].sending = malloc(sending_bytes);
        connections[i].due_ns = malloc(in_flight * sizeof(int64_t));
        connections[i].partition = i % partitions;
    }
}

static void read_template(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail(path);
    fseek(file, 0, SEEK_END);
    template_bytes = (size_t)ftell(file);
    rewind(file);
    template = malloc(template_bytes);
    if (fread(template, 1, template_bytes, file) != template_bytes)
        fail(path);
    fclose(file);
    sending_bytes = template_bytes > GATHERED_BYTES ? template_bytes : GATHERED_BYTES;
}

int main(int argc, char **argv) {
    if (argc != 13) {
        fprintf(stderr, "usage: wire_load PORTS TEMPLATE CORRELATION_AT PARTITION_AT BATCH_AT ERROR_AT "
                        "PARTITIONS CONNECTIONS IN_FLIGHT REQUESTS RATE LATENCIES\n");
        return 2;
    }
    read_template(argv[2]);
    correlation_at = strtoul(argv[3], NULL, 10);
    partition_at = strtoul(argv[4], NULL, 10);
    batch_at = strtoul(argv[5], NULL, 10);
    error_at = strtoul(argv[6], NULL, 10);
    int count = atoi(argv[8]);
    in_flight = (uint32_t)atoi(argv[9]);
    requests = atoll(argv[10]);
    double rate = atof(argv[11]);
    prctl(PR_SET_TIMERSLACK, 1UL);
    watched = calloc((size_t)count, sizeof *watched);
    connections = calloc((size_t)count, sizeof *connections);
    latency_ns = calloc((size_t)requests, sizeof *latency_ns);
    connect_all(count, argv[1], atoi(argv[7]));

    int64_t started = now_ns(), scheduled = 0;
    while (answered < requests) {
        int64_t next_due = INT64_MAX;
        stamp(now_ns());
        if (rate > 0) {
            for (; scheduled < requests; scheduled++) {
                int64_t due = started + (int64_t)((double)scheduled * 1e9 / rate);
                struct connection *c = &connections[scheduled % count];
                if (due > now_ns()) {
                    next_due = due;
                    break;
                }
                if (!has_room(c))
                    break;
                ask(c, due);
            }
        } else {
            int64_t now = now_ns();
            for (int i = 0; i < count; i++)
                while (asked < requests && has_room(&connections[i]))
                    ask(&connections[i], now);
        }
        for (int i = 0; i < count; i++)
            if (connections[i].to_send)
                flush(i);
        int64_t wait_ns = STALLED_MS * 1000000LL;
        if (next_due != INT64_MAX && (wait_ns = next_due - now_ns()) < 0)
            wait_ns = 0;
        struct timespec timeout = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
        int ready = ppoll(watched, (nfds_t)count, &timeout, NULL);
        if (ready < 0)
            fail("ppoll");
        if (ready == 0 && next_due == INT64_MAX) {
            fprintf(stderr, "no answer for %d ms\n", STALLED_MS);
            return 1;
        }
        for (int i = 0; i < count; i++)
            if (watched[i].revents & (POLLIN | POLLHUP | POLLERR))
                take_answers(i);
    }
    double seconds = (double)(now_ns() - started) / 1e9;
    write_latencies(argv[12]);
    printf("{\"requests\": %lld, \"seconds\": %.6f}\n", (long long)answered, seconds);
    return 0;
}
