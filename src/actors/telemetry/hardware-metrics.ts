import { Gauge, type Registry } from 'prom-client'
import { metricPrefix } from '../../brand.ts'
import type { Gpu, Hardware } from '../../protocol/wire/nodes/hardware.ts'

/** The computer of one agent, by the name that an operator calls its node. */
export interface NodeHardware {
  readonly node: string
  readonly hardware: Hardware
}

/** Nodes with series of their own; the others have none, since their numbers cannot be summed. */
const nodesMax = 500
const bytesOfMb = 1_024 * 1_024
const percents = 100

const scaled = (value: number | undefined, by: number) => (value === undefined ? undefined : value * by)

const ofGpus: readonly (readonly [string, string, (gpu: Gpu) => number | undefined])[] = [
  ['gpu_memory_bytes', 'Memory of a GPU', (gpu) => scaled(gpu.memory_total_mb, bytesOfMb)],
  ['gpu_memory_used_bytes', 'What of it all programs take', (gpu) => scaled(gpu.memory_used_mb, bytesOfMb)],
  ['gpu_load_ratio', 'How busy a GPU is, 0 to 1', (gpu) => scaled(gpu.load_percent, 1 / percents)],
  ['gpu_temperature_celsius', 'Temperature of a GPU', (gpu) => gpu.temperature_c],
  ['gpu_power_watts', 'What a GPU draws', (gpu) => gpu.power_watts],
]
const ofComputers: readonly (readonly [string, string, (hardware: Hardware) => number | undefined])[] = [
  ['memory_bytes', 'Memory of a node’s computer', (of) => scaled(of.memory_total_mb, bytesOfMb)],
  ['memory_used_bytes', 'What of it programs have taken', (of) => scaled(of.memory_used_mb, bytesOfMb)],
  ['load_ratio', 'How busy its processors are, 0 to 1', (of) => scaled(of.load_percent, 1 / percents)],
  ['battery_ratio', 'Charge of its battery, 0 to 1', (of) => scaled(of.battery_percent, 1 / percents)],
  ['disk_free_bytes', 'Free where its agent keeps its folder', (of) => scaled(of.disk_free_mb, bytesOfMb)],
]

/** What agents tell of their computers, read when somebody scrapes. A GPU is a number: names are not unique. */
export function registerHardware(registry: Registry, nodes: () => readonly NodeHardware[] | undefined): void {
  const shown = () => (nodes() ?? []).slice(0, nodesMax)
  for (const [name, help, read] of ofGpus) {
    new Gauge({
      name: `${metricPrefix}node_${name}`,
      help,
      labelNames: ['node', 'gpu'],
      registers: [registry],
      collect() {
        this.reset()
        for (const { node, hardware } of shown()) {
          for (const [at, gpu] of (hardware.gpus ?? []).entries()) {
            const value = read(gpu)
            if (value !== undefined) this.set({ node, gpu: String(at) }, value)
          }
        }
      },
    })
  }
  for (const [name, help, read] of ofComputers) {
    new Gauge({
      name: `${metricPrefix}node_${name}`,
      help,
      labelNames: ['node'],
      registers: [registry],
      collect() {
        this.reset()
        for (const { node, hardware } of shown()) {
          const value = read(hardware)
          if (value !== undefined) this.set({ node }, value)
        }
      },
    })
  }
}
