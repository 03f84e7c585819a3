import type { NodeBodyReader } from './transport.ts'

/** Takes a node's bytes as they come. Never throws. */
export interface BodySink {
  bytes(chunk: Uint8Array): void
  ended(): void
  failed(error: unknown): void
}

/** Holds a node back, or lets it go. */
export interface BodyFlow {
  pause(): void
  resume(): void
}

/** Reads ahead of nobody: one chunk at a time, none while paused. Ends with `ended` or `failed`, once. */
export function pump(reader: NodeBodyReader, sink: BodySink): BodyFlow {
  let wake: (() => void) | null = null
  let paused = false
  const run = async () => {
    try {
      for (;;) {
        if (paused) await new Promise<void>((resolve) => (wake = resolve))
        const { done, value } = await reader.read()
        if (done) return sink.ended()
        if (value !== undefined) sink.bytes(value)
      }
    } catch (error) {
      sink.failed(error)
    }
  }
  void run()
  return {
    pause: () => {
      paused = true
    },
    resume: () => {
      paused = false
      wake?.()
      wake = null
    },
  }
}
