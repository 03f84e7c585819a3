import { heapStats } from 'bun:jsc'
import { usualBeatMs, watchLoop } from './loop-monitor.ts'
import { beatVariable, type FromProcess, type ToProcess, Words, watchVariable, word } from './process-words.ts'

/** Runs before the program of a process that is watched, whichever started it: the program itself is as it is shipped. */
const unix = process.env[watchVariable]
if (unix !== undefined) await tellOfPulse(unix)

async function tellOfPulse(unix: string): Promise<void> {
  const words = new Words<ToProcess>()
  const monitor = watchLoop((stall) => tell({ kind: 'stall', stall }), Number(process.env[beatVariable] ?? usualBeatMs))
  const socket = await Bun.connect({
    unix,
    socket: { data: (_, bytes) => words.heard(bytes).forEach(answer), error: () => {}, close: () => monitor.stop() },
  })
  socket.unref()
  function tell(said: FromProcess): void {
    socket.write(word(said))
  }
  function answer({ id, collect }: ToProcess): void {
    monitor.look()
    let [heapBytes, heapObjects] = [0, 0]
    if (collect) {
      Bun.gc(true)
      const { heapSize, objectCount } = heapStats()
      heapBytes = heapSize
      heapObjects = objectCount
      monitor.forget()
    }
    const { worstMs, consumedMs } = monitor
    const pulse = { worstMs, worstSinceMs: monitor.takeWorst(), consumedMs, heapBytes, heapObjects }
    tell({ kind: 'pulse', id, pulse })
  }
  tell({ kind: 'here', pid: process.pid })
}
