/** Below the ports that the kernel gives to whoever asks for none: on a busy machine one of those is soon somebody's. */
const [leastPort, mostPort] = [12_000, 32_000]
const triesMax = 100

function isFreeNow(port: number): boolean {
  try {
    Bun.listen({ hostname: '127.0.0.1', port, exclusive: true, socket: { data() {} } }).stop(true)
    return true
  } catch {
    return false
  }
}

/** A port that is free, with `more` that follow it: for what has to know its own before it listens. */
export function freePort(more = 0): number {
  for (let tries = 0; tries < triesMax; tries++) {
    const port = leastPort + Math.floor(Math.random() * (mostPort - leastPort))
    const all = Array.from({ length: more + 1 }, (_, at) => port + at)
    if (all.every(isFreeNow)) return port
  }
  throw new Error('no port is free')
}
