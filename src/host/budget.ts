import { Problem } from '../errors.ts'

const MiB = 1024 * 1024
/** An answer, a form or an export that keeps no more is not counted: small requests neither ask the account nor get an object for it. */
export const uncountedBytesMax = 64 * 1024
/** Bytes of a text of `units` UTF-16 units, at most: JavaScript keeps one or two bytes of each. */
export const textBytes = (units: number) => 2 * units
/** Grants grow in steps of this size, so that nearly every chunk of a large answer costs one comparison. */
const stepBytes = 256 * 1024
/**
 * This part is not granted: one large answer at a time is parsed and written in it, and what that leaves behind is collected
 * (`LargeWork`). Seen with 512 MiB: 60 and 200 answers of 15 MB at once let the process grow by 150 to 460 MB.
 */
const workParts = 4
/** A customer may keep the account's bytes divided by this. */
const sharesInAll = 4
const retrySeconds = 1

/** Keeps bytes in memory that the account has granted. */
export interface Keeper {
  /** The account has taken the grant back: the keeper drops what it keeps, and ends. */
  outOfMemory(): void
}

/** What one customer keeps. It exists while the customer keeps something. */
interface Account {
  readonly customerId: string
  readonly grants: Grant[]
  bytes: number
}

/** What one answer, form or export keeps. It is given back once, however often `close` is called. */
export class Grant {
  bytes = 0
  /** In the customer's list; -1: given back. */
  place = -1
  /**
   * False once its holder can no longer be ended in an orderly way, such as an answer of which the client has a part.
   */
  endable = true

  constructor(
    private readonly budget: MemoryBudget,
    readonly account: Account,
    readonly keeper: Keeper | null,
  ) {}

  /** Asks for `bytes` in all. False: the grant is closed, and its keeper must end by itself. */
  hold(bytes: number): boolean {
    const steps = Math.ceil(bytes / stepBytes) * stepBytes
    return this.place !== -1 && (steps <= this.bytes ? this.budget.moved(this, steps) : this.budget.grow(this, steps))
  }

  /** Counts these bytes, which are there already, and never refuses: from now on the grant ends by `close` alone. */
  settle(bytes: number): void {
    this.endable = false
    if (this.place !== -1) this.budget.moved(this, bytes)
  }

  close(): void {
    this.budget.close(this)
  }
}

/** How often the account said no. */
export interface MemoryRefusals {
  /** Requests that were refused before a node was asked. */
  readonly refused: number
  /** Answers, forms and exports that were ended while they grew. */
  readonly ended: number
}

/**
 * One account of the bytes that this process keeps for others: whole and gathered answers, what streams keep, forms and exports
 * (§17). Each customer has a share, so that one cannot keep the others out. When a share is full, the largest thing of the same
 * customer ends, never another customer's.
 */
export class MemoryBudget {
  bytes = 0
  private refused = 0
  private ended = 0
  private readonly accounts = new Map<string, Account>()

  /** `bytesMax`: of all grants together; `shareBytes`: of one customer's. */
  constructor(
    readonly bytesMax: number,
    readonly shareBytes: number,
  ) {}

  static ofMegabytes(megabytes: number): MemoryBudget {
    const bytes = megabytes * MiB
    return new MemoryBudget(bytes - Math.floor(bytes / workParts), Math.floor(bytes / sharesInAll))
  }

  get refusals(): MemoryRefusals {
    return { refused: this.refused, ended: this.ended }
  }

  /**
   * Whether a new request of this customer may begin: one comparison while the process keeps little. A customer who keeps nothing
   * is let in also where others fill the account, because a small answer is not counted.
   */
  admits(customerId: string): boolean {
    if (this.bytes + stepBytes <= this.shareBytes) return true
    const own = this.accounts.get(customerId)?.bytes ?? 0
    if (own === 0 || (own + stepBytes <= this.shareBytes && this.bytes + stepBytes <= this.bytesMax)) return true
    this.refused++
    return false
  }

  open(customerId: string, keeper: Keeper | null): Grant {
    let account = this.accounts.get(customerId)
    if (account === undefined) {
      account = { customerId, grants: [], bytes: 0 }
      this.accounts.set(customerId, account)
    }
    const grant = new Grant(this, account, keeper)
    grant.place = account.grants.push(grant) - 1
    return grant
  }

  /** The refusal names the limit, the customer's share and the remedy. */
  refusal(): Problem {
    const mebibytes = Math.floor(this.shareBytes / MiB)
    return new Problem('rate_limited', {
      detail: `The answers, forms and exports of this account that are under way fill its share of the gateway's memory (${mebibytes} MiB). Wait until some of them have ended, or ask for shorter ones.`,
      retryAfterSeconds: retrySeconds,
      headers: {
        'ratelimit-policy': `"memory";q=${this.shareBytes};qu="content-bytes"`,
        ratelimit: `"memory";r=0;t=${retrySeconds}`,
      },
    })
  }

  /** For `Grant`. Ends the largest of the same customer until the bytes fit; of equal ones the one that asks. */
  grow(grant: Grant, bytes: number): boolean {
    const { account } = grant
    const more = bytes - grant.bytes
    while (account.bytes + more > this.shareBytes || this.bytes + more > this.bytesMax) {
      this.ended++
      const largest = largestBut(account, grant)
      if (largest === null || largest.bytes <= bytes) {
        this.close(grant)
        return false
      }
      this.close(largest)
      largest.keeper?.outOfMemory()
    }
    return this.moved(grant, bytes)
  }

  /** For `Grant`. */
  moved(grant: Grant, bytes: number): true {
    const more = bytes - grant.bytes
    grant.bytes = bytes
    grant.account.bytes += more
    this.bytes += more
    return true
  }

  /** For `Grant`. */
  close(grant: Grant): void {
    const { account, place } = grant
    if (place === -1) return
    this.moved(grant, 0)
    grant.place = -1
    // The last one takes the place of the one that leaves.
    const last = account.grants.pop()
    if (last !== undefined && last !== grant) {
      account.grants[place] = last
      last.place = place
    }
    if (account.grants.length === 0) this.accounts.delete(account.customerId)
  }
}

function largestBut({ grants }: Account, asking: Grant): Grant | null {
  let largest: Grant | null = null
  for (const grant of grants) {
    if (grant !== asking && grant.endable && grant.bytes > (largest?.bytes ?? 0)) largest = grant
  }
  return largest
}
