import { task } from './agent-node.ts'
import type { Suite } from './suites.ts'

export interface Run {
  readonly url: string
  readonly key: string
  /** An empty folder, the agent's HOME. */
  readonly home: string
}

export interface AgentProgram extends Suite {
  /** Packages beside the agent itself. */
  readonly beside?: readonly string[]
  readonly registry: 'npm' | 'pypi'
  readonly program: string
  /** By their paths below HOME. */
  files(run: Run): Readonly<Record<string, string>>
  env(run: Run): Readonly<Record<string, string>>
  /** Each is one start of the program. */
  readonly starts: readonly (readonly string[])[]
}

const test = 'tests/heavy/agent-programs.test.ts'
/** Of each of three runs in a row. */
const facts = { first: true, second: true, third: true }
const none = () => ({})
const openai = ({ url, key }: Run) => ({ OPENAI_API_KEY: key, OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: 'm' })
const npm = { test, facts, registry: 'npm', files: none, env: none } as const
const pypi = { ...npm, registry: 'pypi' } as const

/** Without a terminal, a repository, and what it would ask the internet for. */
const aider = ['--model', 'openai/m', '--no-git', '--yes-always', '--analytics-disable']
const aiderQuiet = ['--no-show-model-warnings', '--no-check-update']

const codexStart = ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', task]
const codexSettings = (url: string, wire: 'responses' | 'chat') => `model = "m"
model_provider = "penstock"
web_search = "disabled"

[model_providers.penstock]
name = "Penstock"
base_url = "${url}/v1"
env_key = "PENSTOCK_KEY"
wire_api = "${wire}"
`

/** Agents as their guides in docs/integrations set them up, without a terminal. */
export const agentPrograms: readonly AgentProgram[] = [
  {
    ...npm,
    requirement: '@anthropic-ai/claude-code@2.1.332',
    program: 'claude',
    env: ({ url, key }) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_AUTH_TOKEN: key,
      ANTHROPIC_MODEL: 'm',
      ANTHROPIC_DEFAULT_HAIKU_MODEL: 'm',
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    }),
    starts: [['-p', task, '--permission-mode', 'acceptEdits']],
  },
  {
    ...npm,
    requirement: '@openai/codex@0.169.0',
    program: 'codex',
    env: ({ key }) => ({ PENSTOCK_KEY: key }),
    files: ({ url }) => ({ '.codex/config.toml': codexSettings(url, 'responses') }),
    starts: [codexStart],
  },
  {
    // The last versions that speak chat at all: those of 2026 refuse such a provider.
    ...npm,
    requirement: '@openai/codex@0.77.0',
    program: 'codex',
    env: ({ key }) => ({ PENSTOCK_KEY: key }),
    files: ({ url }) => ({ '.codex/config.toml': codexSettings(url, 'chat') }),
    starts: [codexStart],
  },
  {
    ...npm,
    requirement: 'opencode-ai@1.18.33',
    program: 'opencode',
    env: () => ({ OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1' }),
    files: ({ url, key }) => ({
      '.config/opencode/opencode.json': JSON.stringify({
        model: 'penstock/m',
        small_model: 'penstock/m',
        provider: {
          penstock: {
            npm: '@ai-sdk/openai-compatible',
            name: 'Penstock',
            options: { baseURL: `${url}/v1`, apiKey: key },
            models: { m: { name: 'm' } },
          },
        },
      }),
    }),
    starts: [['run', '--auto', task]],
  },
  {
    ...npm,
    requirement: '@qwen-code/qwen-code@0.24.4',
    beside: ['node@22.23.3'],
    program: 'qwen',
    env: openai,
    starts: [['--yolo', '--telemetry=false', '-p', task]],
  },
  {
    ...npm,
    requirement: '@continuedev/cli@1.5.47',
    program: 'cn',
    env: () => ({ CONTINUE_TELEMETRY_ENABLED: '0' }),
    files: ({ url, key }) => ({
      '.continue/config.yaml': `name: Penstock
version: 1.0.0
schema: v1
models:
  - name: Penstock
    provider: openai
    model: m
    apiBase: ${url}/v1
    apiKey: ${key}
    roles: [chat]
    capabilities: [tool_use]
`,
    }),
    starts: [['--config', '.continue/config.yaml', '--auto', '-p', task]],
  },
  {
    ...pypi,
    requirement: 'llm==0.36',
    program: 'llm',
    env: ({ home }) => ({ LLM_USER_PATH: `${home}/llm` }),
    files: ({ url, key }) => ({
      'llm/extra-openai-models.yaml': `- model_id: penstock
  model_name: m
  api_base: ${url}/v1
  api_key_name: penstock
  supports_tools: true
`,
      'llm/keys.json': JSON.stringify({ penstock: key }),
      'tools.py': `import pathlib

def write_file(path: str, content: str) -> str:
    "Writes a file."
    pathlib.Path(path).write_text(content)
    return "written"

def read_file(path: str) -> str:
    "Reads a file."
    return pathlib.Path(path).read_text()
`,
    }),
    starts: [['-m', 'penstock', '--functions', 'tools.py', task]],
  },
  {
    ...pypi,
    requirement: 'aider-chat==0.86.2',
    program: 'aider',
    env: ({ url, key }) => ({ OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: key }),
    // It has no tools: its model writes the file as text, and a second start reads it.
    starts: [
      [...aider, ...aiderQuiet, '--edit-format', 'whole', '--message', task, 'note.txt'],
      [...aider, ...aiderQuiet, '--chat-mode', 'ask', '--message', 'What does note.txt say?', 'note.txt'],
    ],
  },
]
