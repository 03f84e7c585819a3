import { embeddedFile, programFile } from '../../host/program-files.ts'
import { sha256Hex } from '../../secrets.ts'

export interface AgentFile {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** 64 hex digits. */
  readonly sha256: string
}

/**
 * The node agent as one file that Bun runs by itself (§22): built from this checkout when somebody first asks,
 * and kept. The same sources give the same bytes, so gateways of one version serve one file.
 */
export interface AgentBundle {
  file(): Promise<AgentFile>
}

const agentEntry = programFile('src/cli/agent.ts')
/** In a built program: the same bytes, built with it. */
export const builtAgent = 'agent.mjs'

export function createAgentBundle(entry = agentEntry): AgentBundle {
  let building: Promise<AgentFile> | null = null
  return {
    file: () => {
      building ??= build(entry).catch((error: unknown) => {
        building = null
        throw error
      })
      return building
    },
  }
}

async function build(entry: string): Promise<AgentFile> {
  const built = embeddedFile(builtAgent)
  const bytes = built === null ? await bundleAgent(entry) : await Bun.file(built).bytes()
  return { bytes, sha256: sha256Hex(bytes) }
}

export async function bundleAgent(entry = agentEntry): Promise<Uint8Array<ArrayBuffer>> {
  // Names stay as they are: a fault on somebody's machine must be one that can be read.
  const made = await Bun.build({ entrypoints: [entry], target: 'bun', format: 'esm', minify: { whitespace: true } })
  const [output] = made.outputs
  if (!made.success || output === undefined) throw new Error('the agent was not built')
  return new Uint8Array(await output.arrayBuffer())
}
