import { printable, type Terminal } from '../../frame/terminal.ts'
import { type PieceKind, type Turn, tokensPerSecond } from './chat-stream.ts'

/** Writes the pieces of one answer. Reasoning is dimmed, and left out if the output is not a terminal. */
export function createWriter(terminal: Terminal): { piece(kind: PieceKind, text: string): void; end(): void } {
  let last: PieceKind | null = null
  return {
    piece: (kind, text) => {
      if (kind === 'reasoning' && !terminal.outIsTerminal) return
      const clean = terminal.outIsTerminal ? printable(text) : text
      if (last === 'reasoning' && kind === 'content') terminal.out('\n\n')
      last = kind
      terminal.out(kind === 'reasoning' ? terminal.style('dim', clean) : clean)
    },
    end: () => {
      if (last !== null) terminal.out('\n')
    },
  }
}

const seconds = (ms: number) => `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 1)} s`

/** `[128 tokens, 45.2 tokens/s, first after 0.21 s, 2.98 s in all, vllm, req_…]` */
export function statsLine(turn: Turn): string {
  const rate = tokensPerSecond(turn)
  const kind = turn.metadata?.runtime_kind
  const parts = [
    turn.stopped ? 'stopped' : null,
    turn.usage === null ? null : `${turn.usage.completion_tokens} tokens`,
    rate === null ? null : `${rate.toFixed(1)} tokens/s`,
    turn.ttftMs === null ? null : `first after ${seconds(turn.ttftMs)}`,
    `${seconds(turn.totalMs)} in all`,
    turn.finishReason === null || turn.finishReason === 'stop' ? null : `ended by ${turn.finishReason}`,
    typeof kind === 'string' ? printable(kind) : null,
    turn.requestId,
  ]
  return `[${parts.filter((part) => part !== null).join(', ')}]`
}
