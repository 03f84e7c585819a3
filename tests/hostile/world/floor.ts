/** Many work side by side, or one alone. */
export class Floor {
  private busy = 0
  private taken: Promise<void> | null = null
  private empty: (() => void) | null = null

  async shared<T>(work: () => Promise<T>): Promise<T> {
    while (this.taken !== null) await this.taken
    this.busy++
    try {
      return await work()
    } finally {
      this.busy--
      if (this.busy === 0) this.empty?.()
    }
  }

  private emptied(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.empty = resolve
    return promise
  }

  async alone<T>(work: () => Promise<T>): Promise<T> {
    while (this.taken !== null) await this.taken
    const { promise, resolve } = Promise.withResolvers<void>()
    this.taken = promise
    try {
      if (this.busy > 0) await this.emptied()
      this.empty = null
      return await work()
    } finally {
      this.taken = null
      resolve()
    }
  }
}
