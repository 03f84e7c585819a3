import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { bunSettingLines } from '../src/host/bun-settings.ts'
import { exitSeconds, launchdPlist } from '../src/host/platform/launchd-plist.ts'
import { agentUnit, gatewayUnit } from '../src/host/platform/systemd-unit.ts'

/**
 * Writes the units of `ops`, for those who install by hand, from the texts that `service install` and `node install` use. Usage:
 * `node scripts/bun.mjs scripts/unit-files.ts`. A test compares.
 */
const root = resolve(import.meta.dir, '..')

/** By their names in `ops`. */
export const unitFiles = (): ReadonlyMap<string, string> =>
  new Map([
    [
      'penstock.service',
      gatewayUnit(
        {
          header: [
            'What `./penstock service install --system` makes of a checkout in /opt/penstock, with the embedded PostgreSQL in',
            '/var/lib/penstock. For a PostgreSQL of your own: DATABASE_URL and the secrets in /etc/penstock.env (0600). By hand:',
            '  useradd --system --home-dir /var/lib/penstock penstock',
            '  cp ops/penstock.service /etc/systemd/system/ && systemctl enable --now penstock',
          ],
          scope: 'system',
          runAs: 'penstock',
          stateFolder: 'penstock',
          folder: '/opt/penstock',
          environment: [
            'Environment=SVC_DATA_DIR=/var/lib/penstock/data',
            ...bunSettingLines.map((line) => `Environment=${line}`),
          ],
          environmentFile: '/etc/penstock.env',
          exec: ['# Or the built program: /opt/penstock/dist/penstock serve', 'ExecStart=/opt/penstock/penstock serve'],
        },
        'file:///opt/penstock/docs/operations/install.md',
      ),
    ],
    [
      'penstock-node.service',
      agentUnit({
        header: [
          'The node agent, after the line of `nodes enroll` has run once. `node install` makes such a unit. By hand, as the user who',
          'pasted the line:',
          '  mkdir -p ~/.config/systemd/user && cp penstock-node.service ~/.config/systemd/user/',
          '  systemctl --user enable --now penstock-node && loginctl enable-linger',
        ],
        scope: 'user',
        runAs: '',
        stateFolder: null,
        folder: '%h/.local/share/penstock',
        environment: [],
        environmentFile: null,
        exec: [
          '# The Bun of this computer, or the one that the gateway has passed on. Options such as --runtime URL go behind agent.mjs.',
          `ExecStart=/bin/sh -c 'exec "$(command -v bun || echo ./bun)" agent.mjs'`,
        ],
      }),
    ],
    [
      'penstock-node.plist',
      launchdPlist({
        label: 'penstock-node',
        header: [
          'The node agent on macOS, after the line of `nodes enroll` has run once. `node install` makes such a list. By hand, as the',
          'user who pasted the line:',
          '  cp penstock-node.plist ~/Library/LaunchAgents/',
          '  launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/penstock-node.plist',
          'The Bun of this computer, or the one that the gateway has passed on. Options, as the model server URL, go behind agent.mjs.',
        ],
        command: [
          '/bin/sh',
          '-lc',
          `cd "\${XDG_DATA_HOME:-$HOME/.local/share}/penstock" && exec "$(command -v bun || echo ./bun)" agent.mjs`,
        ],
        folder: null,
        environment: {},
        log: null,
        exitSeconds: exitSeconds.agent,
      }),
    ],
  ])

if (import.meta.main) {
  for (const [name, text] of unitFiles()) writeFileSync(join(root, 'ops', name), text)
}
