import { type Static, Type } from '@sinclair/typebox'
import { Problem } from '../../errors.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'

/** How many consoles one token may hold open. */
export const consolesPerTokenMax = 8
/** How many consoles viewers and operators leave to admins; of a small limit, half of it. */
const keptForAdmins = 8
const keptShareMax = 0.5
const retryAfterSeconds = 30

/** The consoles of one process. `of_token` counts those of the token that was asked for. */
export const OpenConsoles = Type.Object({ all: Type.Number(), of_others: Type.Number(), of_token: Type.Number() })
type OpenConsoles = Static<typeof OpenConsoles>

interface Seat {
  readonly role: AdminRole
  /** A keyed hash of the token, the same in every process of this gateway. */
  readonly token: string
}

/** Decides who may open a console: the processes of one gateway count together. */
export class ConsoleSeats {
  private readonly taken = new Set<Seat>()

  constructor(
    private readonly consolesMax: number,
    /** What the other processes say; empty where there are none. */
    private readonly elsewhere: (token: string) => Promise<readonly OpenConsoles[]>,
  ) {}

  /** Of this process. */
  counts(token: string): OpenConsoles {
    const seats = [...this.taken]
    return {
      all: seats.length,
      of_others: seats.filter(({ role }) => role !== 'admin').length,
      of_token: seats.filter((seat) => seat.token === token).length,
    }
  }

  /** Returns what gives the seat back. Throws a `Problem` with the seconds after which it is worth trying again. */
  async take(seat: Seat): Promise<() => void> {
    // The seat is taken before the others are asked, so that two processes never both give away the last one.
    this.taken.add(seat)
    const back = () => void this.taken.delete(seat)
    try {
      this.check(seat, await this.everywhere(seat.token))
      return back
    } catch (error) {
      back()
      throw error
    }
  }

  private async everywhere(token: string): Promise<OpenConsoles> {
    const others = await this.elsewhere(token)
    const all = [this.counts(token), ...others]
    const sum = (of: keyof OpenConsoles) => all.reduce((total, counts) => total + counts[of], 0)
    return { all: sum('all'), of_others: sum('of_others'), of_token: sum('of_token') }
  }

  /** `open` includes the seat. */
  private check({ role }: Seat, open: OpenConsoles): void {
    if (open.of_token > consolesPerTokenMax) {
      const detail = `This token has ${consolesPerTokenMax} consoles open, which is the most that one token may have. Close one of them, or give each person a token.`
      throw new Problem('concurrency_limited', { detail, retryAfterSeconds })
    }
    const kept = Math.min(keptForAdmins, Math.floor(this.consolesMax * keptShareMax))
    if (open.all > this.consolesMax || (role !== 'admin' && open.of_others > this.consolesMax - kept)) {
      const detail = `The largest allowed number of consoles is open (${this.consolesMax}, of which ${kept} are kept for admins).`
      throw new Problem('service_unavailable', { detail, retryAfterSeconds })
    }
  }
}
