/** Start-time fair queueing: a customer among those of the line, and a key among those of its customer, in virtual time. */
export class Turns {
  /** Its next turn. Only a served request advances it: one that leaves unserved has cost nothing. */
  next = 0
  /** The latest turn that was served of those below. */
  virtual = 0
  private readonly below = new Map<string, Turns>()

  of(id: string): Turns {
    const known = this.below.get(id)
    if (known !== undefined) return known
    const made = new Turns()
    this.below.set(id, made)
    return made
  }

  served(id: string, from: number): void {
    const one = this.of(id)
    const turn = Math.max(one.next, from)
    one.next = turn + 1
    this.virtual = Math.max(this.virtual, turn)
  }
}
