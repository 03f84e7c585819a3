import { accessSettings } from './access.ts'
import { chatSettings } from './chat-requests.ts'
import { mixturesSettings } from './mixtures.ts'
import { moneySettings } from './money.ts'
import { nodesSettings } from './nodes.ts'
import { ollamaSettings } from './ollama.ts'
import { privateJobsSettings } from './private-jobs.ts'
import { processSettings } from './process.ts'
import type { Setting } from './setting.ts'
import { signInSettings } from './sign-in.ts'

/**
 * Every environment variable, once. The reader in `config.ts`, the table of docs/reference/settings.md and the test that
 * holds them together all derive from this list.
 */
export const settings = {
  ...processSettings,
  ...accessSettings,
  ...signInSettings,
  ...chatSettings,
  ...ollamaSettings,
  ...mixturesSettings,
  ...privateJobsSettings,
  ...nodesSettings,
  ...moneySettings,
} as const satisfies Record<string, Setting>

export type SettingName = keyof typeof settings
