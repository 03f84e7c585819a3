import type { CancelSignal } from '../../transport/call-signal.ts'

export type SlotWait = 'slot' | 'full' | 'timeout' | 'aborted'

/** Requests that wait for a free slot, per model; bounded by `waitingMax` each. */
export interface SlotQueue {
  wait(modelId: string, waitMs: number, signal: CancelSignal): Promise<SlotWait>
  /**
   * Something changed for this model, or for any model if it is null. All waiting requests wake up and ask again in
   * their order, because only they know which nodes they may use.
   */
  wake(modelId: string | null): void
  readonly waiting: number
}

interface Waiter {
  readonly wake: () => void
}

export function createSlotQueue(waitingMax: number): SlotQueue {
  const queues = new Map<string, Set<Waiter>>()
  const wakeAll = (queue: ReadonlySet<Waiter>) => {
    for (const waiter of [...queue]) waiter.wake()
  }
  return {
    wait: (modelId, waitMs, signal) => {
      if (signal.aborted) return Promise.resolve('aborted')
      if (waitMs <= 0) return Promise.resolve('timeout')
      const queue = queues.get(modelId) ?? new Set()
      if (queue.size >= waitingMax) return Promise.resolve('full')
      queues.set(modelId, queue)
      return new Promise((resolve) => {
        const end = (result: SlotWait) => {
          clearTimeout(timer)
          signal.removeEventListener('abort', aborted)
          queue.delete(waiter)
          if (queue.size === 0 && queues.get(modelId) === queue) queues.delete(modelId)
          resolve(result)
        }
        const aborted = () => end('aborted')
        const waiter = { wake: () => end('slot') }
        const timer = setTimeout(end, waitMs, 'timeout')
        signal.addEventListener('abort', aborted)
        queue.add(waiter)
      })
    },
    wake: (modelId) => {
      if (modelId === null) {
        for (const queue of [...queues.values()]) wakeAll(queue)
        return
      }
      const queue = queues.get(modelId)
      if (queue !== undefined) wakeAll(queue)
    },
    get waiting() {
      let sum = 0
      for (const queue of queues.values()) sum += queue.size
      return sum
    },
  }
}
