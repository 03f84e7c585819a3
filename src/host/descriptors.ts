import { closeSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { devNull } from 'node:os'

/** The share of the limit above which the listener closes idle connections. */
const scarceShare = 0.9
/** The share of the limit that is reserved for our own connections, and its bounds. */
const reserveShare = 0.05
const reserveMin = 8
const reserveMax = 64
/** This many free descriptors may be used up before one of our own connections opens. */
const freeMin = 4
const table = '/proc/self/fd'

/** The limit `ulimit -n` of this process, or infinity if the system does not report it. */
function limitOfProcess(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    return Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

/** Since Linux 6.2 the size of the folder is the number of descriptors (5 µs). Earlier the entries must be counted. */
function openInProcess(): number {
  const { size } = statSync(table)
  return size > 0 ? size : readdirSync(table).length
}

/**
 * The file descriptors of this process. When a flood of clients takes the last one, Bun says of every connection of our
 * own that it was refused (seen on 1.4.5): the database and each node would look lost. So some are held back, and one is
 * let go in the very turn in which a connection of our own opens: no client can be accepted in between.
 */
export class Descriptors {
  /** True if the last look found more descriptors in use than the listener wants. */
  scarce = false
  private readonly reserve: number[] = []
  private readonly reserved: number

  constructor(
    readonly max = limitOfProcess(),
    private readonly open: () => number = openInProcess,
  ) {
    this.reserved = Number.isFinite(max)
      ? Math.min(reserveMax, Math.max(reserveMin, Math.floor(max * reserveShare)))
      : 0
  }

  /** The number of reserved descriptors at this moment. */
  get held(): number {
    return this.reserve.length
  }

  /** The number of descriptors in use, without the reserved ones. */
  used(): number {
    return this.open() - this.held
  }

  /** True if no descriptor is left for a client. Then a refused connection says nothing about the other side. */
  exhausted(): boolean {
    return this.reserved > 0 && this.open() >= this.max - 1
  }

  /** Counts the descriptors, and refills the reserve while enough are free. */
  look(): void {
    if (this.reserved === 0) return
    const used = this.used()
    this.scarce = used > this.max * scarceShare
    if (!this.scarce) while (this.reserve.length < this.reserved) this.reserve.push(openSync(devNull, 'r'))
  }

  /** Call it right before one of our own connections opens, or before `count` descriptors are opened at once. */
  lend(count = 1): void {
    if (this.reserve.length === 0 || this.max - this.open() > freeMin + count) return
    for (const fd of this.reserve.splice(-count)) closeSync(fd)
  }

  /** Frees the whole reserve. */
  close(): void {
    for (const fd of this.reserve.splice(0)) closeSync(fd)
  }
}

/** One object, because the process has one table of descriptors. */
export const descriptors = new Descriptors()
