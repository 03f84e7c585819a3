import type { Gpu, Hardware } from '../../protocol/wire/nodes/hardware.ts'

/** What a person reads of a node's computer, in the terminal and in the console. What is not known is left out. */

const mbOfGb = 1_024

/** `2.5 GB`, `512 MB`. */
const size = (mb: number) => (mb < mbOfGb ? `${mb} MB` : `${Math.round((10 * mb) / mbOfGb) / 10} GB`)

function memory(used: number | undefined, total: number | undefined): string | null {
  if (total === undefined) return used === undefined ? null : `${size(used)} used`
  return used === undefined ? size(total) : `${size(used)} of ${size(total)} used`
}

const joined = (words: readonly (string | null)[]) => words.filter((word) => word !== null).join(', ')
const unit = (value: number | undefined, words: string) => (value === undefined ? null : `${value}${words}`)

const gpuWords = (gpu: Gpu) =>
  joined([
    gpu.name,
    memory(gpu.memory_used_mb, gpu.memory_total_mb),
    unit(gpu.load_percent, ' % busy'),
    unit(gpu.temperature_c, ' °C'),
    unit(gpu.power_watts, ' W'),
  ])

function batteryWords({ battery_percent: percent, on_battery: drains }: Hardware): string | null {
  if (percent === undefined) return drains === true ? 'runs on its battery' : null
  return `${percent} %${drains === true ? ', runs on it' : ''}`
}

/** A name and a value per line. */
export function hardwareWords(hardware: Hardware | null | undefined): readonly (readonly [string, string])[] {
  if (hardware == null) return []
  const { gpus = [], memory_total_mb: total, memory_used_mb: used } = hardware
  const computer = joined([
    memory(used, total),
    unit(hardware.load_percent, ' % busy'),
    unit(hardware.temperature_c, ' °C'),
  ])
  const battery = batteryWords(hardware)
  return [
    ...gpus.map((gpu, at) => [gpus.length === 1 ? 'GPU' : `GPU ${at}`, gpuWords(gpu)] as const),
    ...(computer === '' ? [] : [['Computer', computer] as const]),
    ...(battery === null ? [] : [['Battery', battery] as const]),
    ...(hardware.disk_free_mb === undefined ? [] : [['Disk', `${size(hardware.disk_free_mb)} free`] as const]),
  ]
}
