import { readdirSync } from 'node:fs'
import { Counter, Gauge, type Registry } from 'prom-client'

const descriptorsDirectory = '/proc/self/fd'
const microsecondsPerSecond = 1_000_000

function openDescriptors(): number | null {
  try {
    return readdirSync(descriptorsDirectory).length
  } catch {
    return null
  }
}

/**
 * The usual `process_*` metrics. prom-client's own set reads V8's counters, most of which Bun answers with 0, NaN or
 * the size of the whole address space (seen on 1.4.5).
 */
export function registerProcessMetrics(registry: Registry): void {
  const registers = [registry]
  new Counter({
    name: 'process_cpu_seconds_total',
    help: 'User and system CPU time',
    registers,
    collect() {
      const { user, system } = process.cpuUsage()
      this.reset()
      this.inc((user + system) / microsecondsPerSecond)
    },
  })
  new Gauge({
    name: 'process_start_time_seconds',
    help: 'Unix time of the start',
    registers,
  }).set(Math.round(Date.now() / 1000 - process.uptime()))
  new Gauge({
    name: 'process_resident_memory_bytes',
    help: 'Resident memory',
    registers,
    collect() {
      this.set(process.memoryUsage.rss())
    },
  })
  if (openDescriptors() === null) return
  new Gauge({
    name: 'process_open_fds',
    help: 'Open file descriptors',
    registers,
    collect() {
      const open = openDescriptors()
      if (open === null) this.remove()
      else this.set(open)
    },
  })
}
