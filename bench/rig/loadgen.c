// loadgen.c - load generator for OpenAI-style gateways. Linux, no dependencies.
//   cc -O2 -o loadgen loadgen.c -lpthread -lm
//
//   ./loadgen --url http://127.0.0.1:8080/v1/chat/completions --mode json   --conns 64  --secs 5
//   ./loadgen --url ...                                       --mode stream --conns 200 --n 100 --us 10000 --secs 5
//   ./loadgen --url ...                                       --mode hold   --conns 10000 --ramp 4000 --us 1000000 --secs 5
//
// modes
//   json    closed loop, keep-alive; or open loop at --rate R requests/s, latency
//           then counts from the scheduled time (no coordinated omission)
//   stream  every connection asks for one SSE stream after the other
//   hold    opens --conns streams and keeps them open: memory and CPU per stream
//
// Each SSE chunk of mock.c carries its send time in its content ("@t<19 digits>@");
// "added" is read time minus send time: the direct line gives the floor.
// One line of JSON on stdout. Latencies are in microseconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void die(const char *m) {
  fprintf(stderr, "loadgen: %s\n", m);
  exit(2);
}

// ---------- histogram: log-linear, 128 steps per power of two (< 0.8 % error) ----------
#define SUB 128
typedef struct {
  uint64_t b[48 * SUB], n, max;
  double sum;
} hist;
static void h_add(hist *h, uint64_t v) {
  int e = v < SUB ? 0 : 63 - __builtin_clzll(v) - 6;
  size_t i = e ? (size_t)e * SUB + ((v >> (e - 1)) - SUB) : v;
  if (i >= 48 * SUB) i = 48 * SUB - 1;
  h->b[i]++;
  h->n++;
  h->sum += v;
  if (v > h->max) h->max = v;
}
static double h_pct(hist *h, double p) {
  if (!h->n) return 0;
  uint64_t want = (uint64_t)(p / 100 * h->n), c = 0;
  if (want >= h->n) return h->max;
  for (size_t i = 0; i < 48 * SUB; i++) {
    c += h->b[i];
    if (c > want) {
      size_t e = i / SUB, r = i % SUB;
      if (!e) return r;
      return (double)((SUB + r) << (e - 1)) + (1ull << (e - 1)) / 2.0;
    }
  }
  return h->max;
}

// ---------- options ----------
static char host[256], path[1024];
static int port = 80;
static const char *mode = "json", *key = NULL, *model = "bench-model", *extra = "";
static char headers[8192];
static int conns = 1, is_stream, is_hold;
static double secs = 3, warm = 0.5, rate = 0;
static long n_chunks = 10, us = 0, tok = 20, ttft_us = 0, outb = 600, delay_us = 0, pad = 0, ramp = 4000, max_req = 0;
static int pids[256], npids = 0;      // the proxy under test
static int pids2[256], npids2 = 0;    // what runs beside it for its sake (its database): CPU only
static char *req;
static size_t req_len;
static struct sockaddr_in addr;

// ---------- proc ----------
static double cpu_of(int pid) {
  char f[64], b[1024];
  snprintf(f, sizeof f, "/proc/%d/stat", pid);
  FILE *fp = fopen(f, "r");
  if (!fp) return 0;
  size_t n = fread(b, 1, sizeof b - 1, fp);
  fclose(fp);
  b[n] = 0;
  char *p = strrchr(b, ')');
  unsigned long ut, st;
  if (!p || sscanf(p + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &ut, &st) != 2) return 0;
  return (double)(ut + st) / sysconf(_SC_CLK_TCK);
}
static double cpu_sum(const int *p, int n) {
  double s = 0;
  for (int i = 0; i < n; i++) s += cpu_of(p[i]);
  return s;
}
static double rss_all(void) {
  double s = 0;
  for (int i = 0; i < npids; i++) {
    char f[64];
    snprintf(f, sizeof f, "/proc/%d/statm", pids[i]);
    FILE *fp = fopen(f, "r");
    long a, b;
    if (fp && fscanf(fp, "%ld %ld", &a, &b) == 2) s += (double)b * sysconf(_SC_PAGESIZE);
    if (fp) fclose(fp);
  }
  return s;
}

// ---------- connections ----------
enum { S_IDLE, S_CONNECTING, S_SENDING, S_HEAD, S_BODY, S_DEAD };
enum { F_LEN, F_CHUNKED, F_CLOSE };
typedef struct {
  int fd, st, fr, ck;       // ck: chunk parser state 0 size,1 ext/cr,2 data,3 crlf,4 trailer
  size_t sent;
  uint64_t t_start, rem;
  uint64_t retry_at;
  char *hb;                 // header bytes / partial line
  size_t hn, hc;
  int status, close_after, got_first, saw_done, saw_mark;
  long chunks;
  uint64_t bytes;
  uint32_t trail;
} conn;
static conn *C;
static int ep;
static hist H_lat, H_ttft, H_add;
static uint64_t t_m0, t_m1;   // measured window
static uint64_t m_req, m_chunks, m_bytes, m_streams;
static uint64_t e_conn, e_status, e_short, e_reset;
static int first_bad_status;
static char first_bad[300];
static long opened_first;     // hold: streams that have had their first chunk
static long started;

// open-loop queue
static uint64_t *dueq;
static size_t dq_h, dq_t, dq_cap;
static int *idle, nidle;

static int measuring(uint64_t t) { return t >= t_m0 && t < t_m1; }

static void ev_mod(conn *c, uint32_t e) {
  struct epoll_event x = {.events = e, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &x);
}
static void c_close(conn *c) {
  if (c->fd >= 0) close(c->fd);
  c->fd = -1;
  c->st = S_DEAD;
}
static void try_send(conn *c) {
  while (c->sent < req_len) {
    ssize_t w = send(c->fd, req + c->sent, req_len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (w < 0) {
      if (errno == EAGAIN) {
        c->st = S_SENDING;
        ev_mod(c, EPOLLIN | EPOLLOUT);
        return;
      }
      e_reset++;
      c_close(c);
      c->retry_at = now_ns() + 10000000;
      return;
    }
    c->sent += w;
  }
  if (c->st == S_SENDING) ev_mod(c, EPOLLIN);
  c->st = S_HEAD;
}
static void begin(conn *c, uint64_t t0) {
  c->t_start = t0;
  c->sent = 0;
  c->hn = 0;
  c->status = 0;
  c->got_first = c->saw_done = c->saw_mark = 0;
  c->chunks = 0;
  c->bytes = 0;
  started++;
  try_send(c);
}
static void c_open(conn *c) {
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (c->fd < 0) die("socket(): out of file descriptors?");
  int one = 1;
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  c->st = S_CONNECTING;
  int r = connect(c->fd, (void *)&addr, sizeof addr);
  struct epoll_event x = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &x);
  if (r < 0 && errno != EINPROGRESS) {
    e_conn++;
    c_close(c);
    c->retry_at = now_ns() + 10000000;
  }
}
static void note_bad(conn *c, const char *p, size_t n) {
  if (!first_bad[0]) {
    first_bad_status = c->status;
    size_t o = 0;
    for (size_t i = 0; i < n && o < 250; i++) {
      char ch = p[i];
      if (ch == '"' || ch == '\\') first_bad[o++] = '\'';
      else first_bad[o++] = ch < 32 ? ' ' : ch;
    }
    first_bad[o] = 0;
  }
}
static void line(conn *c, const char *p, size_t n, uint64_t t) {
  if (n && p[n - 1] == '\r') n--;
  if (n < 5 || memcmp(p, "data:", 5)) return;
  const char *m = memmem(p, n, "@t", 2);
  if (m && (size_t)(p + n - m) >= 21) {
    uint64_t s = 0;
    for (int i = 0; i < 19; i++) s = s * 10 + (m[2 + i] - '0');
    if (!c->got_first) {
      c->got_first = 1;
      if (is_hold) opened_first++;
      if (is_hold || measuring(c->t_start)) h_add(&H_ttft, t - c->t_start);
    }
    c->chunks++;
    if (measuring(t)) {
      m_chunks++;
      h_add(&H_add, t > s ? t - s : 0);
    }
  } else if (n >= 12 && memmem(p, n, "[DONE]", 6)) c->saw_done = 1;
}
static void data(conn *c, const char *p, size_t n, uint64_t t) {
  c->bytes += n;
  if (c->status != 200) {
    note_bad(c, p, n);
    return;
  }
  if (!is_stream) {
    if (!c->saw_mark && memmem(p, n, "@t", 2)) c->saw_mark = 1;
    return;
  }
  while (n) {
    const char *nl = memchr(p, '\n', n);
    size_t k = nl ? (size_t)(nl - p) : n;
    if (!nl || c->hn) {
      if (c->hn + k + 1 > c->hc) c->hb = realloc(c->hb, c->hc = (c->hn + k + 1) * 2);
      memcpy(c->hb + c->hn, p, k);
      c->hn += k;
      if (nl) {
        line(c, c->hb, c->hn, t);
        c->hn = 0;
        if (c->hc > 4096) free(c->hb), c->hb = NULL, c->hc = 0;
      }
    } else line(c, p, k, t);
    if (!nl) return;
    p = nl + 1;
    n -= k + 1;
  }
}
static int stopping;
static void next(conn *c) {
  if (stopping || (max_req && started >= max_req)) {
    c->st = S_IDLE;
    return;
  }
  if (rate > 0) {
    if (dq_h != dq_t) {
      uint64_t d = dueq[dq_h];
      dq_h = (dq_h + 1) % dq_cap;
      begin(c, d);
    } else {
      c->st = S_IDLE;
      idle[nidle++] = c - C;
    }
    return;
  }
  begin(c, now_ns());
}
static void ended(conn *c, uint64_t t) {
  int ok = c->status == 200;
  if (!ok) e_status++;
  else if (is_stream && (!c->saw_done || c->chunks != n_chunks)) e_short++, ok = 0;
  else if (!is_stream && !c->saw_mark) e_short++, ok = 0;
  if (ok && measuring(t)) {
    m_req++;
    m_streams++;
    m_bytes += c->bytes;
    if (!is_stream) h_add(&H_lat, t - c->t_start);
    else h_add(&H_lat, t - c->t_start);
  }
  if (c->close_after) {
    c_close(c);
    c->retry_at = t;
    return;
  }
  next(c);
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
static void feed(conn *c, const char *p, size_t n, uint64_t t) {
  while (n || (c->st == S_BODY && c->fr == F_LEN && c->rem == 0)) {
    if (c->st == S_HEAD) {
      if (c->hn + n + 1 > c->hc) c->hb = realloc(c->hb, c->hc = c->hn + n + 1024);
      size_t from = c->hn > 3 ? c->hn - 3 : 0, old = c->hn;
      memcpy(c->hb + c->hn, p, n);
      c->hn += n;
      c->hb[c->hn] = 0;
      char *e = memmem(c->hb + from, c->hn - from, "\r\n\r\n", 4);
      if (!e) {
        if (c->hn > 65536) {
          e_reset++;
          c_close(c);
          c->retry_at = t + 10000000;
        }
        return;
      }
      size_t hl = e + 4 - c->hb, used = hl - old;
      c->status = atoi(c->hb + 9);
      char *te = ci_header(c->hb, e + 2, "transfer-encoding"), *cl = ci_header(c->hb, e + 2, "content-length"),
           *cn = ci_header(c->hb, e + 2, "connection");
      c->close_after = cn && !strncasecmp(cn, "close", 5);
      c->ck = 0;
      c->rem = 0;
      c->trail = 0;
      if (te && !strncasecmp(te, "chunked", 7)) c->fr = F_CHUNKED;
      else if (cl) c->fr = F_LEN, c->rem = strtoull(cl, NULL, 10);
      else c->fr = F_CLOSE, c->close_after = 1;
      c->hn = 0;
      p += used;
      n -= used;
      if (c->status >= 100 && c->status < 200) continue;  // 100-continue
      c->st = S_BODY;
      continue;
    }
    if (c->st != S_BODY) return;
    if (c->fr == F_LEN) {
      size_t k = n < c->rem ? n : c->rem;
      if (k) data(c, p, k, t);
      if (c->fd < 0) return;
      p += k;
      n -= k;
      c->rem -= k;
      if (!c->rem) {
        ended(c, t);
        return;
      }
      return;
    }
    if (c->fr == F_CLOSE) {
      data(c, p, n, t);
      return;
    }
    // chunked
    if (c->ck == 0) {
      char ch = *p++;
      n--;
      if (ch == '\n') {
        if (c->rem == 0) c->ck = 4, c->trail = 0;
        else c->ck = 2;
      } else if (ch == ';') c->ck = 1;
      else if (ch != '\r') {
        int v = ch >= '0' && ch <= '9' ? ch - '0' : (ch | 32) >= 'a' && (ch | 32) <= 'f' ? (ch | 32) - 'a' + 10 : -1;
        if (v >= 0) c->rem = c->rem * 16 + v;
      }
    } else if (c->ck == 1) {
      if (*p == '\n') c->ck = c->rem ? 2 : 4;
      p++;
      n--;
    } else if (c->ck == 2) {
      size_t k = n < c->rem ? n : c->rem;
      data(c, p, k, t);
      p += k;
      n -= k;
      c->rem -= k;
      if (!c->rem) c->ck = 3;
    } else if (c->ck == 3) {
      if (*p == '\n') c->ck = 0;
      p++;
      n--;
    } else {  // trailer: ends on an empty line
      char ch = *p++;
      n--;
      if (ch == '\n') {
        if (c->trail == 0) {
          ended(c, t);
          return;
        }
        c->trail = 0;
      } else if (ch != '\r') c->trail++;
    }
  }
}
static void on_event(conn *c, uint32_t e) {
  static char buf[262144];
  if (c->fd < 0) return;
  if (c->st == S_CONNECTING) {
    int err = 0;
    socklen_t l = sizeof err;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &l);
    if (err || (e & EPOLLERR)) {
      e_conn++;
      c_close(c);
      c->retry_at = now_ns() + 10000000;
      return;
    }
    if (!(e & EPOLLOUT)) return;
    ev_mod(c, EPOLLIN);
    next(c);
    return;
  }
  if (c->st == S_SENDING && (e & EPOLLOUT)) try_send(c);
  if (!(e & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
  for (;;) {
    ssize_t r = recv(c->fd, buf, sizeof buf, MSG_DONTWAIT);
    uint64_t t = now_ns();
    if (r > 0) {
      feed(c, buf, r, t);
      if (c->fd < 0 || (size_t)r < sizeof buf) return;
      continue;
    }
    if (r < 0 && (errno == EAGAIN || errno == EINTR)) return;
    // closed
    if (c->st == S_BODY && c->fr == F_CLOSE) {
      ended(c, t);
      return;
    }
    if (c->st != S_IDLE) e_reset++;
    c_close(c);
    c->retry_at = t + (c->st == S_IDLE ? 0 : 1000000);
    return;
  }
}
static void parse_url(const char *u) {
  if (strncmp(u, "http://", 7)) die("only http:// URLs");
  u += 7;
  const char *sl = strchr(u, '/');
  size_t n = sl ? (size_t)(sl - u) : strlen(u);
  if (n >= sizeof host) die("host too long");
  memcpy(host, u, n);
  host[n] = 0;
  snprintf(path, sizeof path, "%s", sl ? sl : "/");
  char *col = strrchr(host, ':');
  if (col) port = atoi(col + 1);
  char h2[256];
  strcpy(h2, host);
  if (strchr(h2, ':')) *strchr(h2, ':') = 0;
  addr.sin_family = AF_INET;
  addr.sin_port = htons(port);
  if (!strcmp(h2, "localhost")) strcpy(h2, "127.0.0.1");
  if (inet_pton(AF_INET, h2, &addr.sin_addr) != 1) {
    struct hostent *he = gethostbyname(h2);
    if (!he) die("cannot resolve the host");
    memcpy(&addr.sin_addr, he->h_addr, 4);
  }
}
static void build(void) {
  size_t cap = pad + 4096 + strlen(extra);
  char *body = malloc(cap), *p = body;
  p += sprintf(p,
               "{\"model\":\"%s\",\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant. Answer briefly and in plain "
               "words.\"},{\"role\":\"user\",\"content\":\"[[bench n=%ld us=%ld tok=%ld ttft=%ld out=%ld delay=%ld]] Tell me about the "
               "weather over the hills tonight, please. ",
               model, n_chunks, us, tok, ttft_us, outb, delay_us);
  static const char W[] = "lorem ipsum dolor sit amet, \\\"consectetur\\\" adipiscing\\nelit ";
  for (long i = 0; i < pad;) {
    size_t k = sizeof W - 1;
    memcpy(p, W, k);
    p += k;
    i += k;
  }
  p += sprintf(p, "\"}],\"temperature\":0.7,\"max_tokens\":512%s%s%s}", is_stream ? ",\"stream\":true" : "", *extra ? "," : "", extra);
  size_t bl = p - body;
  req = malloc(bl + 16384);
  int h = sprintf(req, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: */*\r\n%s%s%s%sContent-Length: %zu\r\n\r\n", path,
                  host, key ? "Authorization: Bearer " : "", key ? key : "", key ? "\r\n" : "", headers, bl);
  memcpy(req + h, body, bl);
  req_len = h + bl;
}
static void pr(const char *name, hist *h) {
  printf(",\"%s\":{\"n\":%lu,\"mean\":%.1f,\"p50\":%.1f,\"p90\":%.1f,\"p95\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}", name, h->n,
         h->n ? h->sum / h->n / 1e3 : 0, h_pct(h, 50) / 1e3, h_pct(h, 90) / 1e3, h_pct(h, 95) / 1e3, h_pct(h, 99) / 1e3, h_pct(h, 99.9) / 1e3,
         h->max / 1e3);
}
int main(int ac, char **av) {
  const char *url = NULL, *label = "";
  for (int i = 1; i < ac; i++) {
    char *a = av[i], *v = i + 1 < ac ? av[i + 1] : NULL;
    if (!v) die("missing value");
#define OPT(s) (!strcmp(a, s) && (i++, 1))
    if (OPT("--url")) url = v;
    else if (OPT("--label")) label = v;
    else if (OPT("--mode")) mode = v;
    else if (OPT("--key")) key = v;
    else if (OPT("--model")) model = v;
    else if (OPT("--extra")) extra = v;
    else if (OPT("--header")) { strncat(headers, v, sizeof headers - strlen(headers) - 3); strcat(headers, "\r\n"); }
    else if (OPT("--conns")) conns = atoi(v);
    else if (OPT("--secs")) secs = atof(v);
    else if (OPT("--warm")) warm = atof(v);
    else if (OPT("--rate")) rate = atof(v);
    else if (OPT("--n")) n_chunks = atol(v);
    else if (OPT("--us")) us = atol(v);
    else if (OPT("--tok")) tok = atol(v);
    else if (OPT("--ttft")) ttft_us = atol(v);
    else if (OPT("--out")) outb = atol(v);
    else if (OPT("--delay")) delay_us = atol(v);
    else if (OPT("--pad")) pad = atol(v);
    else if (OPT("--ramp")) ramp = atol(v);
    else if (OPT("--max-req")) max_req = atol(v);
    else if (OPT("--pids")) {
      for (char *s = strtok(strdup(v), ","); s && npids < 256; s = strtok(NULL, ",")) pids[npids++] = atoi(s);
    } else if (OPT("--pids2")) {
      for (char *s = strtok(strdup(v), ","); s && npids2 < 256; s = strtok(NULL, ",")) pids2[npids2++] = atoi(s);
    } else die(a);
  }
  if (!url) die("--url is needed");
  is_hold = !strcmp(mode, "hold");
  is_stream = is_hold || !strcmp(mode, "stream");
  if (!is_stream && strcmp(mode, "json")) die("--mode json|stream|hold");
  if (is_hold) n_chunks = 100000000;
  signal(SIGPIPE, SIG_IGN);
  struct rlimit rl = {200000, 200000};
  if (setrlimit(RLIMIT_NOFILE, &rl)) {
    getrlimit(RLIMIT_NOFILE, &rl);
    rl.rlim_cur = rl.rlim_max;
    setrlimit(RLIMIT_NOFILE, &rl);
  }
  parse_url(url);
  build();
  ep = epoll_create1(0);
  C = calloc(conns, sizeof *C);
  idle = malloc(sizeof(int) * (conns + 1));
  dueq = malloc(sizeof *dueq * (dq_cap = 4000000));
  double rss0 = rss_all(), rss1 = 0, rss_max = 0;
  uint64_t t0 = now_ns(), t_end;
  // spread the start of streams over one stream's life, at most 1 s
  double spread = is_hold ? (double)conns / ramp : is_stream ? (double)n_chunks * us / 1e6 : 0;
  if (!is_hold && spread > 1) spread = 1;
  if (is_hold) {
    t_m0 = t_m1 = UINT64_MAX;
    t_end = t0 + (uint64_t)((spread + 30 + secs) * 1e9);
  } else {
    t_m0 = t0 + (uint64_t)((warm + spread) * 1e9);
    t_m1 = t_m0 + (uint64_t)(secs * 1e9);
    t_end = t_m1;
  }
  double cpu0 = -1, cpu1 = -1, side0 = 0, side1 = 0, t_cpu0 = 0, t_cpu1 = 0;
  struct rusage ru0 = {0}, ru1 = {0};
  uint64_t next_due = t0, step = rate > 0 ? (uint64_t)(1e9 / rate) : 0, last_retry = 0, settle_at = 0;
  int opened = 0, timed_out = 0;
  for (int i = 0; i < conns; i++) C[i].fd = -1, C[i].st = S_DEAD, C[i].retry_at = UINT64_MAX;
  struct epoll_event *ev = malloc(sizeof *ev * 1024);
  for (;;) {
    uint64_t t = now_ns();
    if (t >= t_end) break;
    // open connections as they come due
    while (opened < conns && (spread == 0 || t >= t0 + (uint64_t)(spread * 1e9 * opened / conns))) c_open(&C[opened++]);
    if (is_hold && t_m0 == UINT64_MAX && opened == conns) {
      if (opened_first >= conns && !settle_at) settle_at = t + (uint64_t)(warm * 1e9);
      if (!settle_at && t > t0 + (uint64_t)((spread + 20) * 1e9)) timed_out = 1, settle_at = t;
      if (settle_at && t >= settle_at) {
        t_m0 = t;
        t_m1 = t_end = t + (uint64_t)(secs * 1e9);
        rss1 = rss_all();
      }
    }
    if (cpu0 < 0 && t >= t_m0) cpu0 = cpu_sum(pids, npids), side0 = cpu_sum(pids2, npids2), t_cpu0 = t, getrusage(RUSAGE_SELF, &ru0);
    if (t - last_retry > 1000000) {
      last_retry = t;
      for (int i = 0; i < opened; i++)
        if (C[i].st == S_DEAD && C[i].fd < 0 && t >= C[i].retry_at && !is_hold) {
          C[i].retry_at = UINT64_MAX;
          c_open(&C[i]);
        }
      if (e_conn > 20000) break;
    }
    if (rate > 0)
      while (next_due <= t) {
        if (nidle) begin(&C[idle[--nidle]], next_due);
        else if ((dq_t + 1) % dq_cap != dq_h) dueq[dq_t] = next_due, dq_t = (dq_t + 1) % dq_cap;
        next_due += step;
      }
    struct timespec ts = {0, 1000000};
    if (rate > 0) {
      uint64_t d = next_due > t ? next_due - t : 0;
      if (d < 1000000) ts.tv_nsec = d;
    }
    int n = epoll_pwait2(ep, ev, 1024, &ts, NULL);
    for (int k = 0; k < n; k++) on_event(ev[k].data.ptr, ev[k].events);
  }
  uint64_t tN = now_ns();
  cpu1 = cpu_sum(pids, npids);
  side1 = cpu_sum(pids2, npids2);
  t_cpu1 = tN;
  getrusage(RUSAGE_SELF, &ru1);
  rss_max = rss_all();
  double wall = (t_cpu1 - t_cpu0) / 1e9, cpu = cpu0 < 0 ? 0 : cpu1 - cpu0;
  double self = (ru1.ru_utime.tv_sec - ru0.ru_utime.tv_sec) + (ru1.ru_stime.tv_sec - ru0.ru_stime.tv_sec) +
                (ru1.ru_utime.tv_usec - ru0.ru_utime.tv_usec) / 1e6 + (ru1.ru_stime.tv_usec - ru0.ru_stime.tv_usec) / 1e6;
  long open_now = 0;
  for (int i = 0; i < conns; i++)
    if (C[i].fd >= 0 && (!is_hold || C[i].got_first)) open_now++;
  printf("{\"label\":\"%s\",\"mode\":\"%s\",\"conns\":%d,\"secs\":%.3f,\"ok\":%lu,\"rps\":%.1f,\"chunks\":%lu,\"chunks_s\":%.1f,\"mb_s\":%.2f", label, mode,
         conns, wall, m_req, m_req / wall, m_chunks, m_chunks / wall, m_bytes / wall / 1e6);
  printf(",\"err\":{\"connect\":%lu,\"status\":%lu,\"short\":%lu,\"reset\":%lu}", e_conn, e_status, e_short, e_reset);
  if (first_bad[0]) printf(",\"bad\":\"%d %s\"", first_bad_status, first_bad);
  printf(",\"open\":%ld,\"timed_out\":%d", open_now, timed_out);
  pr("lat", &H_lat);
  if (is_stream) pr("ttft", &H_ttft), pr("added", &H_add);
  if (npids)
    printf(",\"cpu_s\":%.2f,\"cpu_pct\":%.1f,\"cpu_us_req\":%.2f,\"cpu_us_chunk\":%.3f,\"rss0_mb\":%.1f,\"rss1_mb\":%.1f,\"rss_end_mb\":%.1f,\"bytes_per_stream\":%.0f",
           cpu, cpu / wall * 100, m_req ? cpu / m_req * 1e6 : 0, m_chunks ? cpu / m_chunks * 1e6 : 0, rss0 / 1e6, rss1 / 1e6, rss_max / 1e6,
           is_hold && open_now ? (rss_max - rss0) / open_now : 0);
  if (npids2) {
    double side = cpu0 < 0 ? 0 : side1 - side0;
    printf(",\"cpu2_us_req\":%.2f,\"cpu2_us_chunk\":%.3f", m_req ? side / m_req * 1e6 : 0, m_chunks ? side / m_chunks * 1e6 : 0);
  }
  // the moment at which a hold lets go of its streams; a string, for it is larger than a double holds exactly
  printf(",\"let_go_ns\":\"%lu\"", (unsigned long)now_ns());
  printf(",\"self_cpu_pct\":%.1f,\"backlog\":%zu}\n", self / wall * 100, (dq_t + dq_cap - dq_h) % dq_cap);
  // hold: let go of everything at once, as clients that vanish do
  for (int i = 0; i < conns; i++)
    if (C[i].fd >= 0) close(C[i].fd);
  return 0;
}
