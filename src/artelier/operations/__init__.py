"""Operations around a main model call: profiles, sessions, chats. Names load on first use."""
