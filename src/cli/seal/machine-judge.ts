import type { JudgeOptions } from '../../client/attestation/judge.ts'
import {
  type MeasurementPolicy,
  MeasurementPolicyFault,
  measurementPolicyBytesMax,
  parseMeasurementPolicy,
} from '../../client/attestation/measurement-policy.ts'
import type { NodeJudge } from '../../client/sealed/sealed-fetch.ts'
import type { Verdict } from '../../protocol/verify/trust.ts'
import { UsageFault } from '../frame/failure.ts'

/** Timeout for a program that judges GPUs, ms. */
const gpuCheckMs = 30_000

/** What the options of commands say about machines. */
export interface MachineOptions {
  readonly measurements: string
  readonly gpuCheck: string | undefined
}

async function readMeasurements(name: string): Promise<MeasurementPolicy> {
  const file = Bun.file(name)
  if (!(await file.exists())) throw new UsageFault(`The file ${name} cannot be read`)
  if (file.size > measurementPolicyBytesMax) {
    throw new UsageFault(`The file ${name} is larger than ${measurementPolicyBytesMax} bytes`)
  }
  try {
    return parseMeasurementPolicy(await file.text())
  } catch (error) {
    if (!(error instanceof MeasurementPolicyFault)) throw error
    throw new UsageFault(`${name}: ${error.message}`)
  }
}

/** The evidence goes to the program's standard input, the nonce in hex is its argument, and exit code 0 accepts. */
const checkBy = (program: string) => async (evidence: Uint8Array, nonce: Uint8Array) => {
  const child = Bun.spawn([program, nonce.toHex()], {
    stdio: [evidence, 'ignore', 'inherit'],
    timeout: gpuCheckMs,
    killSignal: 'SIGKILL',
  })
  return (await child.exited) === 0
}

/** Throws `UsageFault` for a policy that cannot be used, and for one that asks for what nothing here can check. */
export async function machineJudgeOptions({ measurements, gpuCheck }: MachineOptions): Promise<JudgeOptions> {
  const policy = await readMeasurements(measurements)
  if (gpuCheck !== undefined && Bun.which(gpuCheck) === null) {
    throw new UsageFault(`--gpu-check: ${gpuCheck} is not a program that can be run`)
  }
  if (policy.gpuNeeded && gpuCheck === undefined) {
    throw new UsageFault(
      'The file says that GPUs must show what they are. Name a program that checks it with --gpu-check',
    )
  }
  return { policy, ...(gpuCheck === undefined ? {} : { checkGpu: checkBy(gpuCheck) }) }
}

/** Nodes whose verdicts are told at most. */
const warnedNodesMax = 1_000

function verdictLine(nodeId: string, { valid, subject, checks }: Verdict): string {
  if (valid) return `${nodeId} runs on a computer that your policy allows (${subject}).`
  const wrong = checks.filter(({ ok }) => ok === false).map(({ name, detail }) => `\n  ${name}: ${detail}`)
  return `${nodeId} does not run on a computer that your policy allows, so nothing is sent to it.${wrong.join('')}`
}

/** The judge of `penstock seal`, which tells each verdict when it is another one than before. */
export async function machineJudge(options: MachineOptions, tell: (line: string) => void): Promise<NodeJudge> {
  const judging = await machineJudgeOptions(options)
  // What checks certificates is large, and only those who ask for it load it.
  const { nodeJudge } = await import('../../client/attestation/node-judge.ts')
  const written = new Map<string, string>()
  return nodeJudge({
    ...judging,
    onVerdict: ({ nodeId }, verdict) => {
      const line = verdictLine(nodeId, verdict)
      if (written.get(nodeId) === line || written.size >= warnedNodesMax) return
      written.set(nodeId, line)
      tell(line)
    },
  })
}
