import { heapStats } from 'bun:jsc'
import { start } from '../../../src/main.ts'
import type { FromGateway, ToGateway } from './gateway-words.ts'
import { watchLoop } from './loop-monitor.ts'

/** The gateway as shipped, in a process of its own, with somebody at its pulse. */
const tell = (word: FromGateway) => process.send?.(word)
const monitor = watchLoop((stall) => tell({ kind: 'stall', stall }))
const server = await start(process.env, { quiet: true })

process.on('message', ({ id, collect }: ToGateway) => {
  monitor.look()
  let heapBytes = 0
  if (collect) {
    Bun.gc(true)
    heapBytes = heapStats().heapSize
    monitor.forget()
  }
  tell({ kind: 'pulse', id, pulse: { worstMs: monitor.worstMs, heapBytes } })
})
process.on('SIGTERM', () => void server.stop().then(() => process.exit(0)))
tell({ kind: 'listening', url: server.url })
