/* The floor under every broker: receive a produce request, write its record batches to a file, answer. Nothing else.
 *
 * One thread, poll(2), read(2), write(2) through the page cache. It speaks just enough of Kafka's protocol for a stock
 * librdkafka producer (ApiVersions, Metadata, Produce 3 to 7) and believes every byte it is sent: no CRC, no index, no
 * limits, no fetch. What a client reaches with it is what client, loopback and file system leave to a broker.
 *
 *   bare_loop DIRECTORY      prints "ready: listening on HOST:PORT"
 *
 * Every topic has as many partitions as the file `partitions` in DIRECTORY says, or one; they share the files N.log.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_BYTES (4 << 20)
#define MAX_CLIENTS 256
#define MAX_PARTITIONS 1024

enum { PRODUCE = 0, FETCH = 1, METADATA = 3, API_VERSIONS = 18 };
enum { UNSUPPORTED_VERSION = 35 };

struct client {
    char *received;
    size_t held;
};

static int partition_file[MAX_PARTITIONS];
static int64_t next_offset[MAX_PARTITIONS];
static uint16_t port;
static char *answer_end;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int16_t get_i16(const char **at) {
    uint16_t value;
    memcpy(&value, *at, 2);
    *at += 2;
    return (int16_t)be16toh(value);
}

static int32_t get_i32(const char **at) {
    uint32_t value;
    memcpy(&value, *at, 4);
    *at += 4;
    return (int32_t)be32toh(value);
}

static void skip_string(const char **at) {
    int16_t length = get_i16(at);
    if (length > 0)
        *at += length;
}

static void put_i8(int8_t value) { *answer_end++ = value; }

static void put_i16(int16_t value) {
    uint16_t big = htobe16((uint16_t)value);
    memcpy(answer_end, &big, 2);
    answer_end += 2;
}

static void put_i32(int32_t value) {
    uint32_t big = htobe32((uint32_t)value);
    memcpy(answer_end, &big, 4);
    answer_end += 4;
}

static void put_i64(int64_t value) {
    uint64_t big = htobe64((uint64_t)value);
    memcpy(answer_end, &big, 8);
    answer_end += 8;
}

static void put_bytes(const char *bytes, size_t count) {
    memcpy(answer_end, bytes, count);
    answer_end += count;
}

static void put_string(const char *text) {
    put_i16((int16_t)strlen(text));
    put_bytes(text, strlen(text));
}

static void answer_api_versions(int16_t version) {
    static const int16_t served[][3] = {{PRODUCE, 3, 7}, {FETCH, 4, 4}, {METADATA, 1, 1}, {API_VERSIONS, 0, 0}};
    int count = sizeof served / sizeof served[0];
    put_i16(version == 0 ? 0 : UNSUPPORTED_VERSION);
    put_i32(count);
    for (int i = 0; i < count; i++)
        for (int field = 0; field < 3; field++)
            put_i16(served[i][field]);
}

static int partitions(void) {
    FILE *file = fopen("partitions", "r");
    int count = 1;
    if (file != NULL) {
        if (fscanf(file, "%d", &count) != 1 || count < 1 || count > MAX_PARTITIONS)
            fail("partitions");
        fclose(file);
    }
    return count;
}

static int file_of(int32_t partition) {
    if (partition < 0 || partition >= MAX_PARTITIONS)
        fail("an unknown partition");
    if (partition_file[partition] == 0) {
        char name[32];
        snprintf(name, sizeof name, "%d.log", partition);
        partition_file[partition] = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (partition_file[partition] < 0)
            fail(name);
    }
    return partition_file[partition];
}

static void answer_metadata(const char *at) {
    int count = partitions();
    put_i32(1); /* brokers */
    put_i32(1);
    put_string("127.0.0.1");
    put_i32(port);
    put_i16(-1);
    put_i32(1); /* controller */
    int32_t topics = get_i32(&at);
    if (topics < 0)
        topics = 0;
    put_i32(topics);
    for (int32_t topic = 0; topic < topics; topic++) {
        put_i16(0);
        const char *name = at;
        skip_string(&at);
        put_bytes(name, (size_t)(at - name));
        put_i8(0);
        put_i32(count);
        for (int partition = 0; partition < count; partition++) {
            put_i16(0);
            put_i32(partition);
            put_i32(1); /* leader */
            put_i32(1); /* replicas */
            put_i32(1);
            put_i32(1); /* in sync */
            put_i32(1);
        }
    }
}

/* Returns whether an answer is due: not with acks=0. */
static int answer_produce(const char *at) {
    skip_string(&at); /* transactional id */
    int16_t acks = get_i16(&at);
    get_i32(&at); /* timeout */
    int32_t topics = get_i32(&at);
    put_i32(topics);
    for (int32_t topic = 0; topic < topics; topic++) {
        const char *name = at;
        skip_string(&at);
        put_bytes(name, (size_t)(at - name));
        int32_t count = get_i32(&at);
        put_i32(count);
        for (int32_t i = 0; i < count; i++) {
            int32_t partition = get_i32(&at);
            int32_t size = get_i32(&at);
            if (write(file_of(partition), at, (size_t)size) != size)
                fail("write");
            const char *last_offset_delta = at + 23;
            put_i32(partition);
            put_i16(0);
            put_i64(next_offset[partition]);
            put_i64(-1); /* log append time */
            put_i64(0);  /* log start offset */
            next_offset[partition] += get_i32(&last_offset_delta) + 1;
            at += size;
        }
    }
    put_i32(0); /* throttle time */
    return acks != 0;
}

static void answer(int socket, const char *at) {
    static char frame[1 << 20];
    int16_t api = get_i16(&at), version = get_i16(&at);
    int32_t correlation_id = get_i32(&at);
    skip_string(&at); /* client id */
    answer_end = frame + 4;
    put_i32(correlation_id);
    int due = 1;
    if (api == API_VERSIONS)
        answer_api_versions(version);
    else if (api == METADATA)
        answer_metadata(at);
    else if (api == PRODUCE)
        due = answer_produce(at);
    else {
        fprintf(stderr, "unexpected request %d version %d\n", api, version);
        exit(1);
    }
    size_t size = (size_t)(answer_end - frame);
    uint32_t big = htobe32((uint32_t)(size - 4));
    memcpy(frame, &big, 4);
    if (due && write(socket, frame, size) != (ssize_t)size)
        fail("answer");
}

/* Returns whether the client is still there. */
static int serve(int socket, struct client *client) {
    ssize_t got = read(socket, client->received + client->held, FRAME_BYTES - client->held);
    if (got <= 0)
        return 0;
    client->held += (size_t)got;
    const char *at = client->received, *end = client->received + client->held;
    while (end - at >= 4) {
        const char *body = at;
        int32_t size = get_i32(&body);
        if (size > FRAME_BYTES - 4) {
            fprintf(stderr, "a frame of %d bytes\n", size);
            exit(1);
        }
        if (end - body < size)
            break;
        answer(socket, body);
        at = body + size;
    }
    client->held = (size_t)(end - at);
    memmove(client->received, at, client->held);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2 || chdir(argv[1]) != 0) {
        fprintf(stderr, "usage: bare_loop DIRECTORY\n");
        return 2;
    }
    static struct pollfd watched[MAX_CLIENTS];
    static struct client clients[MAX_CLIENTS];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, MAX_CLIENTS) != 0)
        fail("listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    port = ntohs(address.sin_port);
    printf("ready: listening on 127.0.0.1:%d\n", port);
    fflush(stdout);
    watched[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    int count = 1;
    for (;;) {
        if (poll(watched, (nfds_t)count, -1) < 0)
            fail("poll");
        for (int i = count - 1; i > 0; i--) {
            if (watched[i].revents == 0 || serve(watched[i].fd, &clients[i]))
                continue;
            close(watched[i].fd);
            free(clients[i].received);
            count--;
            watched[i] = watched[count];
            clients[i] = clients[count];
        }
        if (watched[0].revents && count < MAX_CLIENTS) {
            int one = 1, socket = accept(listener, NULL, NULL);
            if (socket < 0)
                fail("accept");
            setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            watched[count] = (struct pollfd){.fd = socket, .events = POLLIN};
            clients[count++] = (struct client){.received = malloc(FRAME_BYTES)};
        }
    }
}
