"""The page of `crosstraj explore` as browser tests handle it."""

from pathlib import Path
from typing import Any

from tests.browser import Page as AnyPage

HOSTILE = "<img src=x onerror=document.title='hacked'> $x {{data}}"
VIEWS = 200


class Page(AnyPage):
    def __init__(
        self, driver: Any, path: Path, width: int = 1400, height: int = 950, *, dark: bool = False
    ) -> None:
        super().__init__(driver, path, width, height, dark=dark)
        self.until(lambda: self.run("return document.body.dataset.ready") == "true")

    def over(self, view: int) -> Any:
        """The pointer moves onto the point of a view."""
        from selenium.webdriver import ActionChains

        x, y = self.run(
            """const map = document.getElementById("map"), l = map._fullLayout, m = now();
            map.scrollIntoView({block: "center"});
            const box = map.getBoundingClientRect();
            return [box.left + l._size.l + l.xaxis.l2p(m.x[arguments[0]]),
                    box.top + l._size.t + l.yaxis.l2p(m.y[arguments[0]])];""",
            view,
        )
        chain = ActionChains(self.driver, duration=50)
        chain.w3c_actions.pointer_action.move_to_location(round(x) - 3, round(y) - 2)
        chain.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        chain.perform()
        return chain

    def click(self, view: int) -> None:
        from selenium.webdriver import ActionChains

        self.over(view)
        ActionChains(self.driver).click().perform()

    def slide(self, index: int) -> None:
        from selenium.webdriver.common.keys import Keys

        slider = self.find("#moment")
        slider.send_keys(Keys.HOME)
        for _ in range(index):
            slider.send_keys(Keys.ARROW_RIGHT)

    def lonely(self) -> int:
        """A view that no other one lies on, so that the pointer can be sure of it."""
        return int(
            self.run(
                """const m = now(); let best = 0, far = -1;
                for (let i = 0; i < m.x.length; i += 1) {
                  let near = Infinity;
                  for (let j = 0; j < m.x.length; j += 1) if (j !== i)
                    near = Math.min(near, Math.hypot(m.x[i] - m.x[j], m.y[i] - m.y[j]));
                  if (near > far) { far = near; best = i; }
                }
                return best;"""
            )
        )
