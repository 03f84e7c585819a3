import type { Stall } from './loop-monitor.ts'

/** What the gateway's process tells of its pulse. */
export interface Pulse {
  /** The longest turn of the event loop so far, ms. */
  readonly worstMs: number
  /** 0 unless it was asked for: weighing the heap walks all of it. */
  readonly heapBytes: number
}

export type FromGateway =
  | { readonly kind: 'listening'; readonly url: string }
  | { readonly kind: 'stall'; readonly stall: Stall }
  | { readonly kind: 'pulse'; readonly id: number; readonly pulse: Pulse }

/** Asks for a pulse; `collect`: with the heap, after the garbage is gone. */
export interface ToGateway {
  readonly id: number
  readonly collect: boolean
}
