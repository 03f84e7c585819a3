// mock.c - a fast OpenAI-compatible upstream "node" for gateway benchmarks.
// One epoll loop per thread (SO_REUSEPORT). No dependencies. Linux only.
//
//   cc -O2 -o mock mock.c -lpthread
//   ./mock --port 19001 [--ports 1] [--threads 1] [--unix /path.sock] [--bind 127.0.0.1] [--keep-last]
//
// --ports N listens on N ports from --port on, all alike: a port of its own for each
// proxy keeps the TIME_WAIT sockets of one from using up the client ports of the next.
//
// POST <any>/chat/completions
//   "stream":true  -> SSE, else -> one JSON completion (~600 bytes), at once.
//   The answer is steered by a directive anywhere in the body (put it into a
//   message, so that it survives any gateway):
//     [[bench n=100 us=10000 tok=20 ttft=0 out=600 delay=0 fail=0]]
//       n     number of SSE content chunks            (default 10)
//       us    microseconds between chunks             (default 0 = flat out)
//       tok   tokens (4-letter words) per chunk       (default 20)
//       ttft  microseconds before the first chunk     (default 0)
//       out   approx. body bytes of a JSON answer     (default 600)
//       delay microseconds before a JSON answer       (default 0)
//       fail  HTTP status to answer with instead      (default 0 = none)
//   Every content chunk carries its send time: content starts "@t<19 digits>@",
//   CLOCK_MONOTONIC nanoseconds, so a client on the same machine gets the time
//   that lies between this write() and its own read().
// GET  <any>/models    model list
// GET  /__stats        counters as JSON;  POST /__reset zeroes them
// GET  /__last         the last chat request body as received (to check what a
//                      gateway forwards, e.g. that it stripped its own keys)
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAXBODY (8u << 20)
static atomic_ulong g_json, g_streams, g_chunks, g_done, g_aborted, g_conns, g_bad, g_bytes_in;
static atomic_long g_open, g_open_conns;
static atomic_ulong g_last_abort;  // CLOCK_MONOTONIC ns at which the last aborted stream was let go
static pthread_mutex_t last_mu = PTHREAD_MUTEX_INITIALIZER;
static char last_body[4096];
static size_t last_len;
static int keep_last = 0;

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

typedef struct conn {
  int fd;
  uint32_t gen;
  char *in;
  size_t in_len, in_cap;
  size_t scan;             // header scan position
  char *out;               // pending output
  size_t out_len, out_off, out_cap;
  // stream or delayed answer in progress
  uint8_t streaming, delayed, close_after, want_out, dead;
  uint32_t n, i, tok, outb;
  uint64_t us, due;
  size_t hpos;             // position in heap + 1, 0 = none
} conn;

typedef struct {
  int ep, ufd;
  conn **heap;
  size_t hn, hcap;
} loop;

// ---------- timer heap ----------
static void h_swap(loop *L, size_t a, size_t b) {
  conn *t = L->heap[a];
  L->heap[a] = L->heap[b];
  L->heap[b] = t;
  L->heap[a]->hpos = a + 1;
  L->heap[b]->hpos = b + 1;
}
static void h_up(loop *L, size_t i) {
  while (i && L->heap[(i - 1) / 2]->due > L->heap[i]->due) h_swap(L, i, (i - 1) / 2), i = (i - 1) / 2;
}
static void h_down(loop *L, size_t i) {
  for (;;) {
    size_t l = 2 * i + 1, m = i;
    if (l < L->hn && L->heap[l]->due < L->heap[m]->due) m = l;
    if (l + 1 < L->hn && L->heap[l + 1]->due < L->heap[m]->due) m = l + 1;
    if (m == i) return;
    h_swap(L, i, m);
    i = m;
  }
}
static void h_push(loop *L, conn *c) {
  if (L->hn == L->hcap) L->heap = realloc(L->heap, (L->hcap = L->hcap ? L->hcap * 2 : 1024) * sizeof *L->heap);
  L->heap[L->hn] = c;
  c->hpos = ++L->hn;
  h_up(L, L->hn - 1);
}
static void h_del(loop *L, conn *c) {
  if (!c->hpos) return;
  size_t i = c->hpos - 1;
  h_swap(L, i, L->hn - 1);
  L->hn--;
  c->hpos = 0;
  if (i < L->hn) h_down(L, i), h_up(L, i);
}

// ---------- output ----------
static void set_events(loop *L, conn *c) {
  struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (c->want_out ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(L->ep, EPOLL_CTL_MOD, c->fd, &e);
}
static int put(loop *L, conn *c, const char *p, size_t n) {
  if (c->out_len == c->out_off) {
    ssize_t w = send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (w < 0) {
      if (errno != EAGAIN && errno != EINTR) return -1;
      w = 0;
    }
    if ((size_t)w == n) return 0;
    p += w;
    n -= w;
    c->out_len = c->out_off = 0;
  }
  if (c->out_len + n > c->out_cap) c->out = realloc(c->out, c->out_cap = (c->out_len + n) * 2);
  memcpy(c->out + c->out_len, p, n);
  c->out_len += n;
  if (!c->want_out) c->want_out = 1, set_events(L, c);
  return 0;
}
static int flush_out(loop *L, conn *c) {
  while (c->out_off < c->out_len) {
    ssize_t w = send(c->fd, c->out + c->out_off, c->out_len - c->out_off, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (w < 0) return errno == EAGAIN ? 0 : -1;
    c->out_off += w;
  }
  c->out_len = c->out_off = 0;
  if (c->want_out) c->want_out = 0, set_events(L, c);
  return 0;
}

// ---------- answers ----------
static const char WORDS[] =
    "the city wind over open sand when rain fell down upon grey slow moss and they went home past that last "
    "lamp with some warm tea amid talk from long days near blue hill side ";
static size_t words(char *o, uint32_t tok, uint32_t seed) {
  size_t n = 0, pos = (seed * 7) % 100;
  size_t want = (size_t)tok * 4;
  while (n < want) o[n++] = WORDS[pos++ % (sizeof WORDS - 1)];
  return n;
}
static int answer_json(loop *L, conn *c) {
  static __thread char *body = NULL;
  static __thread size_t cap = 0;
  size_t fixed = 330;
  uint32_t want = c->outb < 400 ? 400 : c->outb;
  if (cap < want + 2048) body = realloc(body, cap = want + 4096);
  char *p = body + 256, *s = p;
  uint64_t t = now_ns();
  p += sprintf(p,
               "{\"id\":\"chatcmpl-bench00000001\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"bench-model\","
               "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"@t%019llu@",
               (unsigned long long)t);
  p += words(p, (want - fixed) / 4, 1);
  p += sprintf(p, "\"},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":64,"
                  "\"total_tokens\":76},\"system_fingerprint\":\"fp_bench\"}");
  size_t n = p - s;
  char head[200];
  int h = sprintf(head, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n", n,
                  c->close_after ? "Connection: close\r\n" : "");
  memcpy(s - h, head, h);
  atomic_fetch_add_explicit(&g_json, 1, memory_order_relaxed);
  return put(L, c, s - h, n + h);
}
static int answer_text(loop *L, conn *c, int code, const char *ct, const char *b, size_t n) {
  char head[256];
  int h = sprintf(head, "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n", code, ct, n);
  if (put(L, c, head, h)) return -1;
  return put(L, c, b, n);
}
static const char SSE_HEAD[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";
static const char C0[] =
    "data: {\"id\":\"chatcmpl-bench00000001\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
    "\"model\":\"bench-model\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@t";
static const char C1[] = "\"},\"finish_reason\":null}]}\n\n";

static int send_chunk(loop *L, conn *c) {
  static __thread char buf[65536];
  char *p = buf + 16, *s = p;
  memcpy(p, C0, sizeof C0 - 1);
  p += sizeof C0 - 1;
  char *tp = p;
  p += 19;
  *p++ = '@';
  p += words(p, c->tok, c->i);
  memcpy(p, C1, sizeof C1 - 1);
  p += sizeof C1 - 1;
  size_t n = p - s;
  *p++ = '\r';
  *p++ = '\n';
  char head[16];
  int h = sprintf(head, "%zx\r\n", n);
  memcpy(s - h, head, h);
  uint64_t t = now_ns();
  for (int k = 18; k >= 0; k--) tp[k] = '0' + t % 10, t /= 10;
  c->i++;
  atomic_fetch_add_explicit(&g_chunks, 1, memory_order_relaxed);
  return put(L, c, s - h, p - (s - h));
}
static int send_end(loop *L, conn *c) {
  char b[1024], o[1200];
  int n = sprintf(b,
                  "data: {\"id\":\"chatcmpl-bench00000001\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                  "\"model\":\"bench-model\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                  "data: {\"id\":\"chatcmpl-bench00000001\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                  "\"model\":\"bench-model\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":%u,"
                  "\"total_tokens\":%u}}\n\ndata: [DONE]\n\n",
                  c->n * c->tok, c->n * c->tok + 12);
  int h = sprintf(o, "%x\r\n", n);
  memcpy(o + h, b, n);
  memcpy(o + h + n, "\r\n0\r\n\r\n", 7);
  atomic_fetch_add(&g_done, 1);
  atomic_fetch_sub(&g_open, 1);
  c->streaming = 0;
  return put(L, c, o, h + n + 7);
}

// ---------- request ----------
static uint64_t dir_num(const char *d, const char *end, const char *key, uint64_t def) {
  size_t kl = strlen(key);
  for (const char *p = d; p + kl < end; p++)
    if ((p == d || p[-1] == ' ') && !memcmp(p, key, kl) && p[kl] == '=') return strtoull(p + kl + 1, NULL, 10);
  return def;
}
static char *ci_header(char *h, char *end, const char *name) {
  size_t nl = strlen(name);
  for (char *p = h; p < end;) {
    if ((size_t)(end - p) > nl && !strncasecmp(p, name, nl) && p[nl] == ':') {
      p += nl + 1;
      while (*p == ' ') p++;
      return p;
    }
    p = memchr(p, '\n', end - p);
    if (!p) return NULL;
    p++;
  }
  return NULL;
}
// decode a chunked body in place. returns body length, -1 incomplete, -2 bad; *used = raw bytes used
static ssize_t dechunk(char *b, size_t n, size_t *used, int apply) {
  size_t i = 0, o = 0;
  for (;;) {
    char *nl = memmem(b + i, n - i, "\r\n", 2);
    if (!nl) return -1;
    char *e;
    unsigned long k = strtoul(b + i, &e, 16);
    if (e == b + i) return -2;
    i = nl - b + 2;
    if (k == 0) {
      if (n - i < 2) return -1;
      *used = i + 2;
      return o;
    }
    if (n - i < k + 2) return -1;
    if (apply) memmove(b + o, b + i, k);
    o += k;
    i += k + 2;
  }
}
static int handle(loop *L, conn *c, char *h, char *hend, char *body, size_t blen) {
  int is_post = !memcmp(h, "POST ", 5);
  char *sp = memchr(h, ' ', hend - h);
  if (!sp) return -1;  // such as the preface of HTTP/2, by which some gateways look for gRPC
  char *path = sp + 1, *pe = memchr(path, ' ', hend - path);
  if (!pe) return -1;
  char *q = memchr(path, '?', pe - path);
  if (q) pe = q;
  size_t pl = pe - path;
  char *cv = ci_header(h, hend, "connection");
  c->close_after = cv && !strncasecmp(cv, "close", 5);
#define ENDS(s) (pl >= sizeof(s) - 1 && !memcmp(pe - (sizeof(s) - 1), s, sizeof(s) - 1))
  if (is_post && ENDS("/chat/completions")) {
    atomic_fetch_add_explicit(&g_bytes_in, blen, memory_order_relaxed);
    if (keep_last) {
      pthread_mutex_lock(&last_mu);
      last_len = blen < sizeof last_body ? blen : sizeof last_body;
      memcpy(last_body, body, last_len);
      pthread_mutex_unlock(&last_mu);
    }
    c->n = 10, c->us = 0, c->tok = 20, c->outb = 600;
    uint64_t ttft = 0, delay = 0, fail = 0;
    char *d = memmem(body, blen, "[[bench", 7);
    if (d) {
      char *e = memmem(d, body + blen - d, "]]", 2);
      if (e) {
        c->n = dir_num(d, e, "n", 10);
        c->us = dir_num(d, e, "us", 0);
        c->tok = dir_num(d, e, "tok", 20);
        c->outb = dir_num(d, e, "out", 600);
        ttft = dir_num(d, e, "ttft", 0);
        delay = dir_num(d, e, "delay", 0);
        fail = dir_num(d, e, "fail", 0);
        if (c->tok > 15000) c->tok = 15000;
      }
    }
    if (fail) {
      static const char eb[] = "{\"error\":{\"message\":\"bench failure\",\"type\":\"server_error\",\"code\":\"bench\"}}";
      return answer_text(L, c, fail, "application/json", eb, sizeof eb - 1);
    }
    char *st = memmem(body, blen, "\"stream\"", 8);
    int stream = 0;
    if (st) {
      char *p = st + 8, *be = body + blen;
      while (p < be && (*p == ' ' || *p == ':')) p++;
      stream = be - p >= 4 && !memcmp(p, "true", 4);
    }
    if (!stream) {
      if (delay) {
        c->delayed = 1;
        c->due = now_ns() + delay * 1000;
        h_push(L, c);
        return 0;
      }
      return answer_json(L, c);
    }
    c->streaming = 1;
    c->i = 0;
    atomic_fetch_add(&g_streams, 1);
    atomic_fetch_add(&g_open, 1);
    if (put(L, c, SSE_HEAD, sizeof SSE_HEAD - 1)) return -1;
    c->due = now_ns() + ttft * 1000;
    if (!ttft && c->n) {
      if (send_chunk(L, c)) return -1;
      c->due += c->us * 1000;
    }
    h_push(L, c);
    return 0;
  }
  if (ENDS("/models")) {
    static const char m[] = "{\"object\":\"list\",\"data\":[{\"id\":\"bench-model\",\"object\":\"model\",\"created\":0,\"owned_by\":\"bench\"}]}";
    return answer_text(L, c, 200, "application/json", m, sizeof m - 1);
  }
  if (ENDS("/__last")) {
    char b[4096];
    pthread_mutex_lock(&last_mu);
    size_t n = last_len;
    memcpy(b, last_body, n);
    pthread_mutex_unlock(&last_mu);
    return answer_text(L, c, 200, "application/json", b, n);
  }
  if (ENDS("/__reset")) {
    g_json = g_streams = g_chunks = g_done = g_aborted = g_bad = g_bytes_in = 0;
    return answer_text(L, c, 200, "application/json", "{}", 2);
  }
  if (ENDS("/__stats") || ENDS("/health") || ENDS("/healthz")) {
    char b[512];
    int n = sprintf(b,
                    "{\"json\":%lu,\"streams\":%lu,\"chunks\":%lu,\"done\":%lu,\"aborted\":%lu,\"open_streams\":%ld,"
                    "\"open_conns\":%ld,\"accepted\":%lu,\"bad\":%lu,\"bytes_in\":%lu,\"last_abort_ns\":\"%lu\"}",
                    g_json, g_streams, g_chunks, g_done, g_aborted, (long)g_open, (long)g_open_conns, g_conns, g_bad, g_bytes_in, g_last_abort);
    return answer_text(L, c, 200, "application/json", b, n);
  }
  atomic_fetch_add(&g_bad, 1);
  return answer_text(L, c, 404, "application/json", "{}", 2);
}
static void drop(loop *L, conn *c) {
  if (c->dead) return;
  c->dead = 1;
  if (c->streaming) atomic_fetch_add(&g_aborted, 1), atomic_fetch_sub(&g_open, 1), g_last_abort = now_ns();
  atomic_fetch_sub(&g_open_conns, 1);
  h_del(L, c);
  close(c->fd);
  free(c->in);
  free(c->out);
  c->in = c->out = NULL;
}
// returns -1 to drop
static int process(loop *L, conn *c) {
  while (!c->streaming && !c->delayed && c->in_len) {
    size_t from = c->scan > 3 ? c->scan - 3 : 0;
    char *e = memmem(c->in + from, c->in_len - from, "\r\n\r\n", 4);
    if (!e) {
      c->scan = c->in_len;
      return c->in_len > 65536 ? -1 : 0;
    }
    char *hend = e + 2, *body = e + 4;
    size_t hl = body - c->in, avail = c->in_len - hl, used = 0;
    ssize_t blen = 0;
    char *te = ci_header(c->in, hend, "transfer-encoding");
    if (te && !strncasecmp(te, "chunked", 7)) {
      blen = dechunk(body, avail, &used, 0);
      if (blen == -2) return -1;
      if (blen >= 0) blen = dechunk(body, avail, &used, 1);
    } else {
      char *cl = ci_header(c->in, hend, "content-length");
      size_t k = cl ? strtoul(cl, NULL, 10) : 0;
      if (k > MAXBODY) return -1;
      if (avail < k) blen = -1;
      else blen = used = k;
    }
    if (blen < 0) {
      char *ex = ci_header(c->in, hend, "expect");
      if (ex && avail == 0 && !c->scan) put(L, c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
      c->scan = hl - 4 > 0 ? hl - 4 : 1;
      return 0;
    }
    if (handle(L, c, c->in, hend, body, blen)) return -1;
    size_t tot = hl + used;
    if (tot < c->in_len) memmove(c->in, c->in + tot, c->in_len - tot);
    c->in_len -= tot;
    c->scan = 0;
  }
  if (c->close_after && !c->streaming && !c->delayed && c->out_len == c->out_off) return -1;
  return 0;
}
static int on_readable(loop *L, conn *c) {
  for (;;) {
    if (c->in_cap - c->in_len < 4096) {
      size_t nc = c->in_cap ? c->in_cap * 2 : 8192;
      if (nc > 4 * MAXBODY) return -1;
      c->in = realloc(c->in, c->in_cap = nc);
    }
    size_t room = c->in_cap - c->in_len - 1;
    ssize_t r = recv(c->fd, c->in + c->in_len, room, MSG_DONTWAIT);
    if (r == 0) return -1;
    if (r < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
    c->in_len += r;
    c->in[c->in_len] = 0;
    if (process(L, c)) return -1;
    if ((size_t)r < room) return 0;
  }
}
static void on_timer(loop *L, conn *c) {
  h_del(L, c);
  if (c->delayed) {
    c->delayed = 0;
    if (answer_json(L, c) || process(L, c)) drop(L, c);
    return;
  }
  if (!c->streaming) return;
  if (c->out_len - c->out_off > 262144) {  // reader is slow: look again in 1 ms
    c->due += 1000000;
    h_push(L, c);
    return;
  }
  if (c->i >= c->n) {
    if (send_end(L, c) || process(L, c)) drop(L, c);
    return;
  }
  if (send_chunk(L, c)) {
    drop(L, c);
    return;
  }
  if (c->i >= c->n) c->due += 0;  // the end follows at once
  else c->due += c->us * 1000;
  h_push(L, c);
}

static int mk_tcp(const char *bind_ip, int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, bind_ip, &a.sin_addr);
  if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4096)) {
    perror("mock: bind/listen");
    exit(1);
  }
  return fd;
}
static int unix_fd = -1;
static const char *bind_ip = "127.0.0.1";
static int port = 19001, nports = 1;

static void *run(void *arg) {
  (void)arg;
  loop *L = calloc(1, sizeof *L);
  L->ep = epoll_create1(EPOLL_CLOEXEC);
  L->ufd = unix_fd;
  static int lmark[64], umark;
  int *lfds = calloc(64, sizeof *lfds);
  struct epoll_event e = {.events = EPOLLIN};
  for (int i = 0; i < nports; i++) {
    lfds[i] = mk_tcp(bind_ip, port + i);
    e.data.ptr = &lmark[i];
    epoll_ctl(L->ep, EPOLL_CTL_ADD, lfds[i], &e);
  }
  if (L->ufd >= 0) {
    e.data.ptr = &umark;
    e.events = EPOLLIN | EPOLLEXCLUSIVE;
    epoll_ctl(L->ep, EPOLL_CTL_ADD, L->ufd, &e);
  }
  conn **grave = malloc(sizeof *grave * 4096);
  for (;;) {
    struct epoll_event ev[512];
    struct timespec ts = {5, 0};
    if (L->hn) {
      uint64_t t = now_ns(), d = L->heap[0]->due > t ? L->heap[0]->due - t : 0;
      ts.tv_sec = d / 1000000000ull;
      ts.tv_nsec = d % 1000000000ull;
    }
    int n = epoll_pwait2(L->ep, ev, 512, &ts, NULL);
    size_t gn = 0;
    for (int k = 0; k < n; k++) {
      void *p = ev[k].data.ptr;
      int is_tcp = (int *)p >= lmark && (int *)p < lmark + 64;
      if (is_tcp || p == &umark) {
        for (int a = 0; a < 256; a++) {
          int fd = accept4(is_tcp ? lfds[(int *)p - lmark] : L->ufd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
          if (fd < 0) break;
          int one = 1;
          if (is_tcp) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
          conn *c = calloc(1, sizeof *c);
          c->fd = fd;
          atomic_fetch_add(&g_conns, 1);
          atomic_fetch_add(&g_open_conns, 1);
          struct epoll_event ce = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
          epoll_ctl(L->ep, EPOLL_CTL_ADD, fd, &ce);
        }
        continue;
      }
      conn *c = p;
      if (c->dead) continue;
      int bad = 0;
      if (ev[k].events & (EPOLLERR | EPOLLHUP)) bad = 1;
      if (!bad && (ev[k].events & EPOLLOUT)) bad = flush_out(L, c) || (c->close_after && !c->streaming && c->out_len == 0);
      if (!bad && (ev[k].events & (EPOLLIN | EPOLLRDHUP))) bad = on_readable(L, c);
      if (bad) {
        drop(L, c);
        if (gn < 4096) grave[gn++] = c;
      }
    }
    uint64_t t = now_ns();
    size_t left = L->hn + 1;
    while (L->hn && left-- && L->heap[0]->due <= t) {
      conn *c = L->heap[0];
      on_timer(L, c);
      if (c->dead && gn < 4096) grave[gn++] = c;
    }
    for (size_t k = 0; k < gn; k++) free(grave[k]);
  }
  return NULL;
}
int main(int ac, char **av) {
  int threads = 1;
  const char *up = NULL;
  for (int i = 1; i < ac; i++) {
    if (!strcmp(av[i], "--port")) port = atoi(av[++i]);
    else if (!strcmp(av[i], "--ports")) nports = atoi(av[++i]);
    else if (!strcmp(av[i], "--threads")) threads = atoi(av[++i]);
    else if (!strcmp(av[i], "--unix")) up = av[++i];
    else if (!strcmp(av[i], "--bind")) bind_ip = av[++i];
    else if (!strcmp(av[i], "--keep-last")) keep_last = 1;
    else {
      fprintf(stderr, "mock: unknown argument %s\n", av[i]);
      return 2;
    }
  }
  if (nports < 1 || nports > 64) nports = 1;
  signal(SIGPIPE, SIG_IGN);
  struct rlimit rl = {200000, 200000};
  if (setrlimit(RLIMIT_NOFILE, &rl)) {
    getrlimit(RLIMIT_NOFILE, &rl);
    rl.rlim_cur = rl.rlim_max;
    setrlimit(RLIMIT_NOFILE, &rl);
  }
  if (up) {
    unlink(up);
    unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strncpy(a.sun_path, up, sizeof a.sun_path - 1);
    if (bind(unix_fd, (void *)&a, sizeof a) || listen(unix_fd, 4096)) {
      perror("mock: unix");
      return 1;
    }
  }
  pthread_t th[64];
  if (threads > 64) threads = 64;
  for (int i = 1; i < threads; i++) pthread_create(&th[i], NULL, run, NULL);
  run(NULL);
}
