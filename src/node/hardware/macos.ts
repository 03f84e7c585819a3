import { totalmem } from 'node:os'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import type { Gpu } from '../../protocol/wire/nodes/hardware.ts'
import { bytesOfMb, type Found, gpuOf, numberIn } from './numbers.ts'
import { type ToolRun, toolText } from './tool.ts'

/** The list of displays takes seconds, and names alone stand in it, which never change. */
const namesMs = 15_000

type Run = Omit<ToolRun, 'command'>

/** `Now drawing from 'Battery Power'` and `-InternalBattery-0 (id=…)	87%; discharging; …`. */
function batteryIn(text: string | null): Found {
  const percent = numberIn(/(\d+)%;/.exec(text ?? '')?.[1])
  return percent === undefined
    ? {}
    : { battery_percent: percent, on_battery: /drawing from 'Battery Power'/.test(text ?? '') }
}

/** Pages that programs have taken: active, wired and compressed ones. */
function usedIn(text: string | null): number | undefined {
  const pageBytes = numberIn(/page size of (\d+) bytes/.exec(text ?? '')?.[1])
  const pages = ['Pages active', 'Pages wired down', 'Pages occupied by compressor'].map((name) =>
    numberIn(new RegExp(`^${name}: +(\\d+)\\.$`, 'm').exec(text ?? '')?.[1]),
  )
  if (pageBytes === undefined || pages.includes(undefined)) return undefined
  return Math.round((pages.reduce<number>((sum, each) => sum + (each ?? 0), 0) * pageBytes) / bytesOfMb)
}

function namesOfGpus(text: string | null): readonly string[] {
  const { SPDisplaysDataType: cards } = (foreignJson(text ?? '') ?? {}) as { readonly SPDisplaysDataType?: unknown }
  if (!Array.isArray(cards)) return []
  return cards.flatMap((card: { readonly sppci_model?: unknown } | null) =>
    typeof card?.sppci_model === 'string' ? [card.sppci_model] : [],
  )
}

/** What the tools of macOS say. Its GPUs share the computer's memory, and tell neither load nor temperature without root. */
export class MacHardware {
  private gpus: readonly Gpu[] | null = null

  async look(run: Run): Promise<Found> {
    const [memory, battery] = await Promise.all([
      toolText({ ...run, command: ['vm_stat'] }),
      toolText({ ...run, command: ['pmset', '-g', 'batt'] }),
    ])
    this.gpus ??= await this.named(run)
    return {
      gpus: this.gpus ?? [],
      memory_total_mb: Math.round(totalmem() / bytesOfMb),
      memory_used_mb: usedIn(memory),
      ...batteryIn(battery),
    }
  }

  private async named(run: Run): Promise<readonly Gpu[] | null> {
    const text = await toolText({
      ...run,
      boundMs: namesMs,
      command: ['system_profiler', 'SPDisplaysDataType', '-json'],
    })
    const found = namesOfGpus(text).map((name) => gpuOf({ name }))
    return text === null ? null : found.filter((gpu) => gpu !== null)
  }
}
