import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Gpu } from '../../protocol/wire/nodes/hardware.ts'
import { bytesOfMb, gpuOf, numberIn } from './numbers.ts'

/** A file of sysfs; null: it is not there, or the driver does not want to say now. */
export function fileText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null
  }
}

export function namesIn(folder: string, form: RegExp): readonly string[] {
  try {
    return readdirSync(folder)
      .filter((name) => form.test(name))
      .sort()
  } catch {
    return []
  }
}

const milli = 1_000
const micro = 1_000_000

function gpuAt(device: string): Gpu | null {
  const total = numberIn(fileText(join(device, 'mem_info_vram_total')), bytesOfMb)
  // Only the driver amdgpu has this file.
  if (total === undefined) return null
  const hwmon = join(device, 'hwmon')
  const [sensor = ''] = namesIn(hwmon, /^hwmon\d+$/)
  const sensed = (name: string) => fileText(join(hwmon, sensor, name))
  return gpuOf({
    name: fileText(join(device, 'product_name'))?.trim() || 'AMD GPU',
    memory_total_mb: total,
    memory_used_mb: numberIn(fileText(join(device, 'mem_info_vram_used')), bytesOfMb),
    load_percent: numberIn(fileText(join(device, 'gpu_busy_percent'))),
    temperature_c: numberIn(sensed('temp1_input'), milli),
    power_watts: numberIn(sensed('power1_average') ?? sensed('power1_input'), micro),
  })
}

/** The GPUs of AMD under Linux, as the driver amdgpu tells them. `root`: of the file system. */
export function amdGpus(root = '/'): readonly Gpu[] {
  const cards = join(root, 'sys/class/drm')
  return namesIn(cards, /^card\d+$/)
    .map((card) => gpuAt(join(cards, card, 'device')))
    .filter((gpu) => gpu !== null)
}
