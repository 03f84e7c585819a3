import { NoAnswer, within } from '../deadline.ts'
import { Problem } from '../errors.ts'
import { secondMs } from '../time.ts'

/** The part of Bun's server that times connections. Its clock moves in steps of 4 s. */
export interface TimedServer {
  timeout(request: Request, seconds: number): void
}

/** How long a connection may be idle between requests, during an answer, or while the client reads nothing. */
export const idleSeconds = 75
/** The largest value that Bun accepts. */
const secondsMax = 255
/**
 * While a body is awaited. Bun closes a connection that has not brought 16 KiB for each of these seconds when they are
 * over (seen): 9 are 8 to 12 s on its clock, and 12 to 18 kB/s.
 */
const bodySilenceSeconds = 9
const bodyMsMax = 30 * secondMs
/** The minimum rate ends shorter bodies within `bodyMsMax`, so they need no timer. */
const shortBodyBytesMax = 256 * 1024

const tooSlow = () =>
  new Problem('invalid_request', {
    detail: `The body did not arrive within ${bodyMsMax / secondMs} s`,
    headers: { connection: 'close' },
  })

/**
 * The time limits of each connection (§27). Headers are Bun's own: 10 s for the first request of a connection, whether
 * bytes drip or not (seen). The clock is lifted only between the body and the answer, where the work has deadlines of
 * its own.
 */
export class ConnectionClock {
  /** `server` returns null until it listens, and for a request that did not come through it. */
  constructor(private readonly server: () => TimedServer | null) {}

  /** A body that is being read. No promise more where the body is short. Call `rest` or `lift` when it is there. */
  arriving<T>(request: Request, reading: Promise<T>): Promise<T> {
    this.server()?.timeout(request, bodySilenceSeconds)
    const length = Number(request.headers.get('content-length') ?? Number.NaN)
    return length <= shortBodyBytesMax ? reading : inTime(reading)
  }

  /** The same, with the clock of a request that is at work afterwards. */
  async body<T>(request: Request, reading: Promise<T>): Promise<T> {
    try {
      return await this.arriving(request, reading)
    } finally {
      this.rest(request)
    }
  }

  /** Allows the answer to be silent, because the route has its own deadlines. Call `rest` before the answer is sent. */
  lift(request: Request): void {
    this.server()?.timeout(request, 0)
  }

  /** Allows silence only while `work` runs. */
  async lifted<T>(request: Request, work: () => Promise<T>): Promise<T> {
    this.lift(request)
    try {
      return await work()
    } finally {
      this.rest(request)
    }
  }

  rest(request: Request, seconds = idleSeconds): void {
    this.server()?.timeout(request, Math.min(seconds, secondsMax))
  }
}

function inTime<T>(reading: Promise<T>): Promise<T> {
  return within(bodyMsMax, reading).catch((error: unknown) => {
    throw error instanceof NoAnswer ? tooSlow() : error
  })
}
