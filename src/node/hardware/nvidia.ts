import type { Gpu } from '../../protocol/wire/nodes/hardware.ts'
import { gpuOf, numberIn } from './numbers.ts'
import { type ToolRun, toolText } from './tool.ts'

const asked = 'name,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw'
const command = ['nvidia-smi', `--query-gpu=${asked}`, '--format=csv,noheader,nounits'] as const

/** A line a GPU; what it cannot tell it writes as `[N/A]` or `[Not Supported]`. */
function gpuOfLine(line: string): Gpu | null {
  const cells = line.split(',').map((cell) => cell.trim())
  const [power, temperature, load, used, total] = cells.toReversed()
  const name = cells.slice(0, -5).join(', ')
  return gpuOf({
    name,
    memory_total_mb: numberIn(total),
    memory_used_mb: numberIn(used),
    load_percent: numberIn(load),
    temperature_c: numberIn(temperature),
    power_watts: numberIn(power),
  })
}

/** The GPUs of NVIDIA, as their own tool tells them; empty where it is not there. */
export async function nvidiaGpus(run: Omit<ToolRun, 'command'>): Promise<readonly Gpu[]> {
  const text = await toolText({ ...run, command: [...command] })
  const lines = (text ?? '').split('\n').filter((line) => line.split(',').length >= 6)
  return lines.map(gpuOfLine).filter((gpu) => gpu !== null)
}

const processCommand = ['nvidia-smi', '--query-compute-apps=pid,used_memory', '--format=csv,noheader,nounits'] as const

/**
 * What each process has in the memory of NVIDIA's GPUs, MiB, all of them together; empty where their tool is not there. In a container
 * it tells the numbers that processes have outside, which are not those of this system.
 */
export async function nvidiaProcesses(run: Omit<ToolRun, 'command'>): Promise<ReadonlyMap<number, number>> {
  const text = await toolText({ ...run, command: [...processCommand] })
  const sums = new Map<number, number>()
  for (const line of (text ?? '').split('\n')) {
    const [pid, mb] = line.split(',').map((cell) => numberIn(cell))
    if (pid !== undefined && mb !== undefined && mb >= 0) sums.set(pid, (sums.get(pid) ?? 0) + mb)
  }
  return sums
}
