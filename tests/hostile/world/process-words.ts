import type { Stall } from './loop-monitor.ts'

/** What a process tells of its pulse. */
export interface Pulse {
  /** The longest turn of the event loop so far, ms. */
  readonly worstMs: number
  /** The same since the last pulse. */
  readonly worstSinceMs: number
  /** Processor time of the thread so far, ms. */
  readonly consumedMs: number
  /** 0 unless it was asked for: weighing the heap walks all of it. */
  readonly heapBytes: number
  /** Of the heap; 0 likewise. */
  readonly heapObjects: number
}

export type FromProcess =
  | { readonly kind: 'here'; readonly pid: number }
  | { readonly kind: 'stall'; readonly stall: Stall }
  | { readonly kind: 'pulse'; readonly id: number; readonly pulse: Pulse }

/** Asks for a pulse; `collect`: with the heap, after the garbage is gone. */
export interface ToProcess {
  readonly id: number
  readonly collect: boolean
}

/** The variable that says at which socket a process tells of its pulse. */
export const watchVariable = 'HOSTILE_WATCH'
/** The variable that says how often its event loop is looked at, ms. */
export const beatVariable = 'HOSTILE_BEAT_MS'
export const noPulse: Pulse = { worstMs: 0, worstSinceMs: 0, consumedMs: 0, heapBytes: 0, heapObjects: 0 }

/** Words are lines of JSON: this gives each that has come whole. */
export class Words<W> {
  private rest = ''

  heard(bytes: Uint8Array): readonly W[] {
    const lines = (this.rest + Buffer.from(bytes).toString('utf8')).split('\n')
    this.rest = lines.pop() ?? ''
    return lines.map((text) => JSON.parse(text) as W)
  }
}

export const word = (said: FromProcess | ToProcess) => `${JSON.stringify(said)}\n`
