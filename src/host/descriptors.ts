import { closeSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs'

/** Share of the limit above which the listener sheds what it can. */
const scarceShare = 0.9
/** Share of the limit that is kept back for connections of our own, and its bounds. */
const reserveShare = 0.05
const reserveMin = 8
const reserveMax = 64
/** So few free ones may be gone before a connection of our own is open. */
const freeMin = 4
const table = '/proc/self/fd'

/** `ulimit -n` as this process has it; infinity where the system does not tell. */
function limitOfProcess(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    return Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

/** Since Linux 6.2 the size of the folder is how many there are (5 µs); before, its entries are counted. */
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
  /** More are in use than the listener wants, as of the last look. */
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

  /** Held back at this moment. */
  get held(): number {
    return this.reserve.length
  }

  /** Without those that are held back. */
  used(): number {
    return this.open() - this.held
  }

  /** None is left for a client: what the system refuses now says nothing of the other side. */
  exhausted(): boolean {
    return this.reserved > 0 && this.open() >= this.max - 1
  }

  /** Counts, and fills up what is held back while there is plenty. */
  look(): void {
    if (this.reserved === 0) return
    const used = this.used()
    this.scarce = used > this.max * scarceShare
    if (!this.scarce) while (this.reserve.length < this.reserved) this.reserve.push(openSync('/dev/null', 'r'))
  }

  /** Call right before a connection of our own, or `count` descriptors at once, are opened. */
  lend(count = 1): void {
    if (this.reserve.length === 0 || this.max - this.open() > freeMin + count) return
    for (const fd of this.reserve.splice(-count)) closeSync(fd)
  }

  /** Gives all back. */
  close(): void {
    for (const fd of this.reserve.splice(0)) closeSync(fd)
  }
}

/** The process has one table of them. */
export const descriptors = new Descriptors()
