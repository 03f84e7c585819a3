/**
 * Work that costs much and that many may ask for, such as a read of the whole ledger. One runs at a time; a caller who
 * asks meanwhile shares the one after it, so that no answer is older than its question. Rejects as the work does.
 */
export function sharedRun<T>(run: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | null = null
  let next: Promise<T> | null = null
  const start = () => {
    next = null
    const own = run().finally(() => {
      running = null
    })
    running = own
    return own
  }
  return () => {
    if (next !== null) return next
    if (running === null) return start()
    next = running.then(start, start)
    return next
  }
}

/** The same for each of many subjects. Of one for which no caller waits nothing is kept. */
export function sharedRuns<T>(run: (subject: string) => Promise<T>): (subject: string) => Promise<T> {
  const asked = new Map<string, { readonly ask: () => Promise<T>; waiting: number }>()
  return (subject) => {
    const shared = asked.get(subject) ?? { ask: sharedRun(() => run(subject)), waiting: 0 }
    asked.set(subject, shared)
    shared.waiting++
    return shared.ask().finally(() => {
      shared.waiting--
      if (shared.waiting === 0) asked.delete(subject)
    })
  }
}
