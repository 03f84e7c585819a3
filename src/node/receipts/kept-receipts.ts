import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { PrivateFolder } from '../../host/private-files.ts'
import { failureName, type Log } from '../../log.ts'
import { fieldsOf } from '../../protocol/verify/given.ts'
import { dayMs, utcDay } from '../../time.ts'

/** What this node has signed. */
export interface KeptReceipt {
  readonly requestId: string
  /** `0x` and 64 hex digits. */
  readonly hash: string
  /** When it was signed, Unix ms. */
  readonly ms: number
}

/** The hashes of the receipts that this node has signed, a file for each day, and those that it has not found in the log yet. */
export interface KeptReceipts {
  add(receipt: KeptReceipt): void
  /** Those that are still to be looked up. */
  waiting(): readonly KeptReceipt[]
  /** It was found, or its owner was told. */
  settle(receipt: KeptReceipt): void
  /** Removes files that are too old, and writes down what is settled. */
  tidy(): void
}

export interface KeptReceiptsOptions {
  readonly folder: PrivateFolder
  readonly log: Log
  /** How long hashes are kept. */
  readonly days?: number | undefined
  /** Unix ms. */
  readonly now?: () => number
}

const receiptsFolder = 'receipts'
const daysDefault = 90
/** Of one day, about 600,000 receipts; what comes then is not kept. */
const dayBytesMax = 64 * 1024 * 1024
/** Of all days; the oldest go first. */
const folderBytesMax = 512 * 1024 * 1024
/** Of those that are to be looked up; further ones are kept, and not looked up. */
const waitingMax = 20_000
/** The agent stops looking for a receipt after this time without success. */
const waitingMsMax = dayMs
const settledFile = 'receipts.json'

const fileName = /^[0-9]{4}-[0-9]{2}-[0-9]{2}\.txt$/
const line = /^([0-9]{1,15}) (0x[0-9a-f]{64}) ([!-~]{1,64})$/
const lineOf = ({ ms, hash, requestId }: KeptReceipt) => `${ms} ${hash} ${requestId}\n`

/** A line that a crash cut does not count. */
function readLine(text: string): KeptReceipt | null {
  const [, ms, hash, requestId] = line.exec(text) ?? []
  return ms === undefined || hash === undefined || requestId === undefined ? null : { ms: Number(ms), hash, requestId }
}

export function openKeptReceipts(options: KeptReceiptsOptions): KeptReceipts {
  return new DayFiles(options)
}

class DayFiles implements KeptReceipts {
  private readonly path: string
  private readonly now: () => number
  private readonly open = new Map<string, KeptReceipt>()
  /** All that was signed until then is settled, Unix ms. */
  private settledMs: number
  /** Of all that was signed, Unix ms. */
  private newestMs = 0
  private day = ''
  private dayBytes = 0
  private isLogged = false
  /** Some were settled since that was written down. */
  private isSettled = false

  constructor(private readonly options: KeptReceiptsOptions) {
    const { folder, now = Date.now } = options
    this.path = join(folder.path, receiptsFolder)
    this.now = now
    const { settled_ms: settledMs } = fieldsOf(folder.read(settledFile))
    this.settledMs = typeof settledMs === 'number' ? settledMs : 0
    this.readWaiting()
  }

  add(receipt: KeptReceipt): void {
    try {
      this.append(receipt)
    } catch (error) {
      // The answer goes out all the same: its receipt is signed.
      this.notKept(failureName(error))
    }
    this.await(receipt)
  }

  private await(receipt: KeptReceipt): void {
    this.newestMs = Math.max(this.newestMs, receipt.ms)
    if (this.open.size < waitingMax) this.open.set(receipt.hash, receipt)
  }

  waiting(): readonly KeptReceipt[] {
    return [...this.open.values()]
  }

  settle({ hash }: KeptReceipt): void {
    if (this.open.delete(hash)) this.isSettled = true
  }

  tidy(): void {
    const oldestMs = this.now() - waitingMsMax
    for (const receipt of this.open.values()) if (receipt.ms < oldestMs) this.settle(receipt)
    const settledMs = this.open.values().reduce((first, { ms }) => Math.min(first, ms - 1), this.newestMs)
    if (this.isSettled && settledMs > this.settledMs) {
      this.isSettled = false
      this.settledMs = settledMs
      this.options.folder.write(settledFile, { settled_ms: settledMs })
    }
    this.removeOld()
  }

  private append(receipt: KeptReceipt): void {
    const day = utcDay(receipt.ms)
    const file = join(this.path, `${day}.txt`)
    if (day !== this.day) {
      mkdirSync(this.path, { recursive: true, mode: 0o700 })
      this.dayBytes = existsSync(file) ? statSync(file).size : 0
      this.day = day
    }
    const text = lineOf(receipt)
    if (this.dayBytes + text.length > dayBytesMax) return this.notKept('DayFull')
    appendFileSync(file, text, { mode: 0o600 })
    this.dayBytes += text.length
  }

  /** Once a start. */
  private notKept(failure: string): void {
    if (!this.isLogged) this.options.log.warn('receipts_not_kept', { failure })
    this.isLogged = true
  }

  private names(): readonly string[] {
    if (!existsSync(this.path)) return []
    return readdirSync(this.path)
      .filter((name) => fileName.test(name))
      .sort()
  }

  private readWaiting(): void {
    const fromMs = Math.max(this.settledMs, this.now() - waitingMsMax)
    for (const name of this.names().filter((one) => one >= `${utcDay(fromMs)}.txt`)) {
      for (const text of readFileSync(join(this.path, name), 'utf8').split('\n')) {
        const receipt = readLine(text)
        if (receipt !== null && receipt.ms > fromMs) this.await(receipt)
      }
    }
  }

  private removeOld(): void {
    const { days = daysDefault } = this.options
    const first = `${utcDay(this.now() - days * dayMs)}.txt`
    let bytes = 0
    for (const name of this.names().toReversed()) {
      const file = join(this.path, name)
      bytes += statSync(file).size
      if (name < first || bytes > folderBytesMax) rmSync(file, { force: true })
    }
  }
}
