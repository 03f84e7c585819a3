/** A listener for an abort: a function, or an object of a class, which needs no closure. */
export type AbortListener = (() => void) | { handleEvent(): void }

/** The part of `AbortSignal` that a transport uses. */
export interface CancelSignal {
  readonly aborted: boolean
  addEventListener(type: 'abort', listener: AbortListener): void
  removeEventListener(type: 'abort', listener: AbortListener): void
}

/**
 * The signal of one call. An `AbortController` with its signal and one listener costs 2.5 µs, a tenth of what the whole
 * request does in this process; this is the same for one caller and one transport.
 */
export class CallSignal implements CancelSignal {
  aborted = false
  /** Nearly always all there are. */
  private first: AbortListener | null = null
  private more: AbortListener[] | null = null

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    const { first, more } = this
    this.first = null
    this.more = null
    if (first !== null) tell(first)
    if (more !== null) for (const listener of more) tell(listener)
  }

  addEventListener(_type: 'abort', listener: AbortListener): void {
    if (this.first === null && this.more === null) this.first = listener
    else if (this.more === null) this.more = [listener]
    else this.more.push(listener)
  }

  removeEventListener(_type: 'abort', listener: AbortListener): void {
    if (this.first === listener) this.first = null
    const at = this.more?.indexOf(listener) ?? -1
    if (at !== -1) this.more?.splice(at, 1)
  }
}

function tell(listener: AbortListener): void {
  if (typeof listener === 'function') listener()
  else listener.handleEvent()
}
